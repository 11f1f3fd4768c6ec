#include "feed/transport/segments.hpp"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

namespace zaris::feed {

namespace {

// The library would take -1 for 65535.
bool is_segment(const nlohmann::json& value) { return value.is_number_unsigned() && value.get<std::uint64_t>() < 16384; }

}  // namespace

Result<SegmentsPage> parse_segments(std::string_view text) {
  const auto malformed = [](std::string_view what) { return failure("feed_segments_malformed", fmt::format("the answer to GET /v1/segments is not understood: {}", what)); };
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return malformed("not a JSON object");
  try {
    SegmentsPage out;
    const std::string cluster = json.at("cluster");
    std::uint64_t id = 0;
    if (cluster.size() != 16 || std::from_chars(cluster.data(), cluster.data() + 16, id, 16).ptr != cluster.data() + 16) return malformed("cluster");
    out.cluster = ClusterId{id};
    out.segments_total = json.at("segments_total");
    out.closed_time_us = json.at("closed_time_us");
    const auto& rows = json.at("segments");
    if (!rows.is_array() || rows.size() > 16384) return malformed("segments");
    out.rows.reserve(rows.size());
    for (const auto& row : rows) {
      if (!is_segment(row.at("segment"))) return malformed("segment");
      out.rows.push_back({SegmentId{row.at("segment").get<std::uint16_t>()}, {Generation{row.at("generation").get<std::uint32_t>()}, Revision{row.at("head").get<std::uint64_t>()}},
                          Revision{row.at("floor").get<std::uint64_t>()}});
    }
    if (const auto none = json.find("unavailable"); none != json.end()) {
      if (!none->is_array() || none->size() > 16384) return malformed("unavailable");
      for (const auto& segment : *none) {
        if (!is_segment(segment)) return malformed("unavailable");
        out.unavailable.push_back(SegmentId{segment.get<std::uint16_t>()});
      }
    }
    return out;
  } catch (const nlohmann::json::exception& e) {
    return malformed(e.what());
  }
}

std::string format_segments(const SegmentsPage& page) {
  std::string out;
  out.reserve(160 + page.rows.size() * 72);
  fmt::format_to(std::back_inserter(out), R"({{"cluster":"{}","segments_total":{},"closed_time_us":{},"segments":[)", hex16(page.cluster.value()), page.segments_total,
                 page.closed_time_us);
  const char* comma = "";
  for (const auto& row : page.rows) {
    fmt::format_to(std::back_inserter(out), R"({}{{"segment":{},"generation":{},"head":{},"floor":{}}})", comma, row.segment.value(), row.head.generation.value(),
                   row.head.revision.value(), row.floor.value());
    comma = ",";
  }
  out += ']';
  if (!page.unavailable.empty()) {
    out += ",\"unavailable\":[";
    for (std::size_t i = 0; i < page.unavailable.size(); ++i) fmt::format_to(std::back_inserter(out), "{}{}", i == 0 ? "" : ",", page.unavailable[i].value());
    out += ']';
  }
  out += "}\n";
  return out;
}

}  // namespace zaris::feed
