#include "cluster/client/bulk_run.hpp"

namespace zaris::client {
namespace {

constexpr std::size_t bulk_request_bytes = 256u << 10;
constexpr std::uint32_t bulk_request_items = 4096;
constexpr std::size_t bulk_in_flight = 8;        // requests of one bulk without an answer

}  // namespace

void BulkRun::begin() {
  for (std::uint32_t i = 0; i < operations.size(); ++i)
    if (!outcomes[i].error) todo.push_back(i);
  order();
  pump();
}

// Neighbours in the list of one owner share requests; the order of one owner's operations is the caller's.
void BulkRun::order() {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_owner;
  for (const std::uint32_t i : todo) by_owner[owner(slots[i]).value_or(~0u)].push_back(i);
  todo.clear();
  for (auto& [node, indices] : by_owner) todo.insert(todo.end(), indices.begin(), indices.end());
  next = 0;
  round_done = false;
}

void BulkRun::pump() {
  std::unique_lock lock(mutex);
  while (in_flight < bulk_in_flight && next < todo.size()) {
    const auto node = owner(slots[todo[next]]);
    const auto connection = node ? connection_of(*node) : nullptr;
    auto batch = std::make_shared<std::vector<std::uint32_t>>();
    std::size_t bytes = 0;
    while (next < todo.size() && batch->size() < bulk_request_items) {
      const Operation& op = operations[todo[next]];
      const std::size_t size = op.key.size() + op.value.size() + 32;
      if (!batch->empty() && (bytes + size > bulk_request_bytes || owner(slots[todo[next]]) != node)) break;
      bytes += size;
      batch->push_back(todo[next++]);
    }
    if (!connection) {
      for (const std::uint32_t i : *batch) retry(i, Error{"unavailable", "nobody owns the segment of this key now", "`zaris status` says what its partition waits for"}, true);
      continue;
    }
    ++in_flight;
    const auto left = std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
    lock.unlock();
    connection->send(
        [&](std::string& out, std::uint32_t correlation) {
          out.reserve(out.size() + bytes + 64);
          protocol::BatchRequestWriter writer(out, correlation, durability);
          for (const std::uint32_t i : *batch) {
            const Operation& op = operations[i];
            writer.add({op.opcode, op.key, op.value, op.expires_us, op.condition});
          }
          writer.finish();
        },
        left, [self = shared_from_this(), batch](Result<Answer> answer) { self->on_answer(*batch, answer); });
    lock.lock();
  }
  // Once per round: the thread that sent the last request and the one that got its answer may both come by here.
  const bool over = in_flight == 0 && next == todo.size() && !std::exchange(round_done, true);
  lock.unlock();
  if (over) round_over();
}

// Under mutex.
void BulkRun::retry(std::uint32_t i, Error why, bool may) {
  outcomes[i].error = std::move(why);
  if (may) later.push_back(i);
}

// A delete is not: when the key is gone already, the second answer says nothing of copies.
bool BulkRun::unmet(std::uint32_t i) const {
  return retry_undurable && outcomes[i].status == Status::durability_not_met && operations[i].opcode == protocol::Opcode::put && operations[i].condition.kind == protocol::Condition::Kind::none;
}

void BulkRun::on_answer(const std::vector<std::uint32_t>& batch, const Result<Answer>& answer) {
  {
    const std::lock_guard lock(mutex);
    --in_flight;
    protocol::BatchAnswer list;
    if (!answer) {
      const bool unknown = answer.error().code == "connection_lost" || answer.error().code == "timed_out";
      for (const std::uint32_t i : batch)
        retry(i, answer.error(), answer.error().code == "unreachable" || (unknown && (is_read(operations[i].opcode) || retry_unknown)));
    } else if (answer->status != Status::ok) {
      const Error why = final_refusal(answer->status, answer->body);
      for (const std::uint32_t i : batch) retry(i, why, passes(answer->status));
    } else if (!protocol::BatchAnswer::decode(answer->body, list) || list.size() != batch.size()) {
      for (const std::uint32_t i : batch) retry(i, unreadable("Batch"), false);
    } else {
      protocol::BatchAnswerItem item;
      for (const std::uint32_t i : batch) {
        if (!list.next(item)) {
          retry(i, unreadable("Batch"), false);
        } else if (is_answer(item.status)) {
          outcomes[i] = Outcome{item.status, item.token, item.expires_us, std::string(item.value), {}};
          if (unmet(i)) later.push_back(i);
        } else {
          // A value that did not fit into the answer is asked for again.
          const bool did_not_fit = item.status == Status::capacity_exceeded && is_read(operations[i].opcode);
          retry(i, final_refusal(item.status, {}), passes(item.status) || did_not_fit);
        }
      }
    }
  }
  pump();
}

void BulkRun::round_over() {
  const auto wait = backoff(attempt++);
  if (later.empty() || attempt >= attempts_max || Clock::now() + wait >= deadline) return handler(std::move(outcomes));
  std::sort(later.begin(), later.end());
  refresh();
  const bool armed = after(wait, [self = shared_from_this()] {
    self->todo = std::move(self->later);
    self->later.clear();
    for (const std::uint32_t i : self->todo) self->outcomes[i].error.reset();
    self->order();
    self->pump();
  });
  if (!armed) handler(std::move(outcomes));
}

}  // namespace zaris::client
