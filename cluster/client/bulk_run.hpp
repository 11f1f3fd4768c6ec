// Inside cluster/client: one bulk, cut into requests per owner, a few of them in flight, what failed for a passing reason sent again.
#pragma once
#include "cluster/client/client_core.hpp"

namespace zaris::client {

// Kept alive by what it has in flight.
struct BulkRun : std::enable_shared_from_this<BulkRun> {
  std::vector<Operation> operations;
  std::vector<Outcome> outcomes;
  std::vector<Slot> slots;
  std::vector<std::uint32_t> todo, later;           // indices: to be sent now; to be tried again
  std::size_t next = 0;                             // into todo
  std::size_t in_flight = 0;
  bool round_done = false;
  unsigned attempt = 0;
  Clock::time_point deadline;
  Durability durability = Durability::store_default;
  std::function<void(std::vector<Outcome>)> handler;
  std::function<std::optional<std::uint32_t>(Slot)> owner;
  std::function<std::shared_ptr<Connection>(std::uint32_t)> connection_of;
  std::function<void()> refresh;
  std::function<bool(milliseconds, std::function<void()>)> after;  // false: the loop is gone
  bool retry_unknown = false, retry_undurable = false;
  std::mutex mutex;                                 // the first requests leave from the caller's thread

  void begin();

 private:
  void order();
  void pump();
  void retry(std::uint32_t i, Error why, bool may);  // under mutex
  bool unmet(std::uint32_t i) const;                 // it stands at the owner, and is sent again for the copies' sake
  void on_answer(const std::vector<std::uint32_t>& batch, const Result<Answer>& answer);
  void round_over();
};

}  // namespace zaris::client
