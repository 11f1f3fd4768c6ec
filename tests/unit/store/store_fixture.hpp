// A small store, and short ways to fill it and to feed one from another.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"
#include "cluster/store/store.hpp"

namespace zaris::store {

inline constexpr WallMicros second = 1'000'000;
inline constexpr WallMicros start_time = 1'700'000'000 * second;

inline std::unique_ptr<Store> make_store(std::uint32_t segments = 4, std::uint64_t cluster = 0xa, StoreOptions options = {}) {
  options.cluster = ClusterId{cluster};
  options.segments = segments;
  options.seed = cluster;
  return Store::create(options, StoreStart{Generation{static_cast<std::uint32_t>(100 + cluster)}, RootCause::created, start_time});
}

inline WriteOutcome put(Store& store, std::string_view key, std::string_view value, WallMicros now = start_time, WallMicros expires_us = 0) {
  return store.put(Put{.key = key, .value = value, .expires_us = expires_us, .expected = {}, .only_if_absent = false}, now);
}
inline std::optional<std::string> get(Store& store, std::string_view key, WallMicros now = start_time) {
  std::string value;
  const auto outcome = store.get(key, now, value);
  if (outcome.status != Status::ok) return std::nullopt;
  return value;
}

// Every record of a segment's log, generation records as "#".
inline std::vector<std::string> log_keys(const Store& store, SegmentId segment, Revision after = Revision{0}) {
  std::vector<std::string> out;
  LogStretch stretch;
  while (store.read_log(segment, after, 1 << 20, stretch) == LogRead::ok) {
    for (std::size_t i = 0; i < stretch.index.size(); ++i) {
      out.push_back((stretch.index[i].flags & log_flag_generation) != 0 ? "#" : std::string(trusted_key(stretch.record(i).data())));
    }
    after = stretch.last();
  }
  return out;
}

// What a client sees, in scan order.
inline std::vector<std::pair<std::string, std::string>> contents(Store& store, WallMicros now = start_time, std::size_t page = 1000) {
  std::vector<std::pair<std::string, std::string>> out;
  ScanRequest request;
  request.count_max = page;
  for (;;) {
    const ScanPage p = store.scan(request, now);
    for (const auto& r : p.records) {
      const RecordView v = trusted_record(r);
      out.emplace_back(v.key, v.value);
    }
    if (!p.next) return out;
    request.after = p.next;
  }
}

inline NamedPosition named_head(const Store& store, SegmentId segment) {
  const Position head = store.state(segment).head;
  return {head, store.lineage(segment).id_of(head.generation)};
}

// A key that lies in this segment.
inline std::string key_in(SegmentId segment, std::uint32_t segments, int n) {
  for (int i = n * 100'000;; ++i) {
    std::string key = "k" + std::to_string(i);
    if (segment_of(slot_of(key), segments) == segment) return key;
  }
}

}  // namespace zaris::store
