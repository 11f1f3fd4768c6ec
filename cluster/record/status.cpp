#include "cluster/record/status.hpp"

#include <array>

namespace zaris {
namespace {
constexpr std::array<std::string_view, status_count> names = {
    "Ok", "NotFound", "Conflict", "Moved", "OwnershipChanging", "Migrating", "ReplicaSyncPending", "ReplicaWriteRejected",
    "Unavailable", "ItemTooLarge", "CapacityExceeded", "Standby", "DurabilityNotMet", "Unauthorized", "InvalidArgument",
    "TimedOut", "Unsupported", "TargetChanged", "MarkGap", "TermSuperseded", "EpochSuperseded", "SourceChanged",
    "RangeDiffers", "WouldLose", "RemovalLimit", "ListGone", "ScopeMismatch"};
}

std::string_view name(Status status) {
  const auto i = static_cast<std::size_t>(status);
  return i < names.size() ? names[i] : "Unknown";
}

}  // namespace zaris
