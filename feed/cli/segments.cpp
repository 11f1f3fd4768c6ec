#include "feed/cli/segments.hpp"

#include <fmt/format.h>

#include <ostream>

#include "feed/cli/exit_code.hpp"
#include "feed/client/blocking.hpp"

namespace zaris::feed::cli {

int show_segments(const FeedEndpoint& endpoint, const std::string& format, std::ostream& out, std::ostream& err) {
  const auto page = get_segments_blocking(endpoint);
  if (!page) {
    err << "zaris-feed: " << page.error().text() << '\n';
    return exit_code_of(page.error());
  }
  if (format == "json") {
    out << format_segments(*page);
  } else if (format == "ndjson") {
    for (const auto& row : page->rows) {
      out << fmt::format("{{\"segment\":{},\"generation\":{},\"head\":{},\"floor\":{}}}\n", row.segment.value(), row.head.generation.value(), row.head.revision.value(), row.floor.value());
    }
    for (const SegmentId segment : page->unavailable) out << fmt::format("{{\"segment\":{},\"unavailable\":true}}\n", segment.value());
  } else {
    out << fmt::format("{:>7} {:>24} {:>14} {:>12}\n", "SEGMENT", "HEAD", "FLOOR", "HELD");
    for (const auto& row : page->rows) {
      out << fmt::format("{:>7} {:>24} {:>14} {:>12}\n", row.segment.value(), to_string(row.head), row.floor.value(), row.head.revision.value() + 1 - row.floor.value());
    }
    for (const SegmentId segment : page->unavailable) out << fmt::format("{:>7} {:>24}\n", segment.value(), "unavailable");
    if (page->rows.size() != page->segments_total) err << fmt::format("zaris-feed: {} of {} segments are served here now\n", page->rows.size(), page->segments_total);
  }
  out.flush();
  return exit_ok;
}

}  // namespace zaris::feed::cli
