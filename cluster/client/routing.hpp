// Who owns a slot: the table that a client looks up once per key. Plain value, built from a Map.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/placement/slot.hpp"
#include "cluster/protocol/admin_messages.hpp"

namespace zaris::client {

class Routing {
 public:
  Routing() = default;
  explicit Routing(protocol::MapAnswer map);

  [[nodiscard]] const protocol::MapAnswer& map() const { return map_; }
  // Index of the owning node; empty: nobody owns it now.
  [[nodiscard]] std::optional<std::uint32_t> owner(Slot slot) const;
  [[nodiscard]] std::optional<std::uint32_t> owner(SegmentId segment) const;
  // The first segment that nobody owns now; empty: there is none.
  [[nodiscard]] std::optional<SegmentId> unowned() const;
  // The run that holds a slot, or the first one behind it; index into map().runs, runs.size() when there is none.
  [[nodiscard]] std::size_t run_at(Slot slot) const;
  [[nodiscard]] Slot first_slot(std::size_t run) const;
  [[nodiscard]] Slot last_slot(std::size_t run) const;

 private:
  protocol::MapAnswer map_;
  std::vector<std::int32_t> owner_of_segment_;  // −1: nobody
};

}  // namespace zaris::client
