// The statuses of the native protocol. Numbers are the wire's and never change; new ones are appended.
#pragma once
#include <cstdint>
#include <string_view>

namespace zaris {

enum class Status : std::uint16_t {
  ok = 0,
  not_found = 1,
  conflict = 2,
  moved = 3,
  ownership_changing = 4,
  migrating = 5,
  replica_sync_pending = 6,
  replica_write_rejected = 7,
  unavailable = 8,
  item_too_large = 9,
  capacity_exceeded = 10,
  standby = 11,
  durability_not_met = 12,
  unauthorized = 13,
  invalid_argument = 14,
  timed_out = 15,
  unsupported = 16,
  target_changed = 17,
  mark_gap = 18,
  term_superseded = 19,
  epoch_superseded = 20,
  source_changed = 21,
  range_differs = 22,
  would_lose = 23,
  removal_limit = 24,
  list_gone = 25,
  scope_mismatch = 26,
};
inline constexpr std::uint16_t status_count = 27;

// The name as docs and errors print it, e.g. "MarkGap"; "Unknown" for a number that this build does not know.
[[nodiscard]] std::string_view name(Status status);

}  // namespace zaris
