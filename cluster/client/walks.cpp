// Scans and digests: run by run of segments with one owner, in (slot, key) order.
#include <algorithm>
#include <iterator>
#include <map>

#include "cluster/client/client_core.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::client {
namespace {

// The part of a scope that lies in the slots of one run. Empty: nothing of it does.
std::optional<Scope> within(const Scope& scope, Slot first, Slot last) {
  std::vector<std::pair<Slot, Slot>> ranges;
  auto given = scope.slot_ranges();
  if (given.empty()) given.emplace_back(Slot{0}, Slot{slot_count - 1});
  for (const auto& [from, to] : given) {
    const Slot low = std::max(from, first), high = std::min(to, last);
    if (low <= high) ranges.emplace_back(low, high);
  }
  if (ranges.empty()) return std::nullopt;
  auto made = Scope::make(scope.prefixes(), std::move(ranges));
  ZARIS_ASSERT(made.has_value(), made.error().what);
  return std::move(*made);
}

// What a walk's requests have in common: each goes to whoever owns a slot by now, and again while it is refused for a passing reason.
// Reads only, so an answer that never came is asked for again as well. Kept alive by its own callbacks.
struct Walking : std::enable_shared_from_this<Walking> {
  std::shared_ptr<Client::Core> core;
  Scope scope;
  Clock::time_point deadline;
  unsigned attempt = 0;
  Slot at{0};                              // the next slot that is asked for

  virtual ~Walking() = default;
  virtual void ask() = 0;
  virtual void fail(Error why) = 0;

  // The table as it is now, and the run at `at`: the next one with a slot of the scope. runs.size(): there is none. Empty: somebody
  // should own a slot in between and nobody does, which must not look as if there were nothing.
  std::optional<std::size_t> find_run(Routing& routing) {
    {
      const std::lock_guard lock(core->mutex);
      routing = core->routing;
    }
    const auto& runs = routing.map().runs;
    if (routing.map().segments == 0) return std::nullopt;
    while (true) {
      const std::size_t run = routing.run_at(at);
      const Slot end = run < runs.size() ? routing.first_slot(run) : Slot{slot_count - 1};
      if (at < end && within(scope, at, run < runs.size() ? Slot{static_cast<std::uint16_t>(end.value() - 1)} : end)) return std::nullopt;
      if (run == runs.size()) return run;
      at = std::max(at, end);
      if (within(scope, at, routing.last_slot(run))) return run;
      if (routing.last_slot(run).value() + 1u >= slot_count) return runs.size();
      at = Slot{static_cast<std::uint16_t>(routing.last_slot(run).value() + 1)};
    }
  }

  void again(Error why) {
    const auto wait = backoff(attempt++);
    const auto held = core->loop.lock();
    if (!passes(why) || !held || attempt >= attempts_max || Clock::now() + wait >= deadline) return fail(std::move(why));
    core->refresh();
    held->after(wait, [self = shared_from_this()] { self->ask(); });
  }
  static bool passes(const Error& why) {
    static constexpr Status passing[] = {Status::moved, Status::ownership_changing, Status::migrating, Status::replica_sync_pending, Status::replica_write_rejected, Status::unavailable};
    return why.code == "unreachable" || why.code == "connection_lost" || why.code == "timed_out" ||
           std::any_of(std::begin(passing), std::end(passing), [&](Status status) { return why.code == code_of(status); });
  }
};

const Error nobody{"unavailable", "nobody owns some of these segments now", {}};

struct Scanning final : Walking {
  std::optional<SlotKey> after;
  ScanLimits limits;
  Handler<ScanPage> handler;

  void fail(Error why) override { handler(tl::unexpected(std::move(why))); }

  // A page never leaves one run of segments with one owner; where a run gave nothing more, the next one is asked.
  void ask() override {
    Routing routing;
    const auto run = find_run(routing);
    if (!run) return again(nobody);
    if (*run == routing.map().runs.size()) return handler(ScanPage{});
    const bool alone = routing.map().runs.size() == 1;
    const Slot last = routing.last_slot(*run);
    const std::string text = alone ? scope.text() : within(scope, routing.first_slot(*run), last)->text();
    const protocol::ScanRequest request{text, after, limits.records, limits.bytes, limits.keys_only};
    core->ask<protocol::ScanAnswer>(
        core->connection_of(routing.map().runs[*run].node), "Scan", [&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); },
        [self = std::static_pointer_cast<Scanning>(shared_from_this()), last](Result<protocol::ScanAnswer> answer) {
          if (!answer) return self->again(std::move(answer.error()));
          const bool more = last.value() + 1u < slot_count;
          // A node's token may lie behind its own run; what is next is the beginning of the next one.
          if (more && answer->next && last < answer->next->slot) answer->next.reset();
          if (answer->table.empty() && !answer->next && more) {
            self->at = Slot{static_cast<std::uint16_t>(last.value() + 1)};
            self->after.reset();
            return self->ask();
          }
          ScanPage page{std::string(answer->table), std::string(answer->records), std::move(answer->next)};
          if (!page.next && more) page.next = self->last_of(page);
          self->handler(std::move(page));
        });
  }

  std::optional<SlotKey> last_of(const ScanPage& page) const {
    const RecordRow row = read_row(page.table, row_count(page.table) - 1);
    const std::string_view bytes = std::string_view(page.records).substr(page.records.size() - row.length);
    if (limits.keys_only) return SlotKey{row.slot, std::string(bytes)};
    const auto record = parse_record(bytes);
    if (!record) return std::nullopt;
    return SlotKey{row.slot, std::string(record->key)};
  }
};

struct Digesting final : Walking {
  protocol::DigestBy by = protocol::DigestBy::total;
  Handler<std::vector<protocol::DigestRow>> handler;
  std::map<std::uint32_t, protocol::DigestRow> rows;

  void fail(Error why) override { handler(tl::unexpected(std::move(why))); }
  void done() {
    std::vector<protocol::DigestRow> out;
    if (by == protocol::DigestBy::total && rows.empty()) rows[0] = {};
    for (auto& [id, row] : rows) out.push_back(row);
    handler(std::move(out));
  }

  void ask() override {
    Routing routing;
    const auto run = find_run(routing);
    if (!run) return again(nobody);
    if (*run == routing.map().runs.size()) return done();
    const Slot last = routing.last_slot(*run);
    const protocol::DigestRequest request{scope.text(), by, at, last};
    core->ask<protocol::DigestAnswer>(
        core->connection_of(routing.map().runs[*run].node), "Digest", [&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); },
        [self = std::static_pointer_cast<Digesting>(shared_from_this()), first = at, last](Result<protocol::DigestAnswer> answer) {
          if (!answer) return self->again(std::move(answer.error()));
          if (answer->next && (*answer->next <= first || *answer->next > last)) return self->fail(unreadable("Digest"));
          for (const auto& part : answer->rows) {
            auto& row = self->rows[part.id];
            row.id = part.id;
            row.count += part.count;
            row.digest += part.digest;
          }
          if (!answer->next && last.value() + 1u >= slot_count) return self->done();
          self->at = answer->next ? *answer->next : Slot{static_cast<std::uint16_t>(last.value() + 1)};
          self->ask();
        });
  }
};

}  // namespace

void Client::scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits, Handler<ScanPage> handler) {
  auto scanning = std::make_shared<Scanning>();
  scanning->core = core_;
  scanning->scope = scope;
  scanning->deadline = Clock::now() + core_->options.timeout;
  if (after) scanning->at = after->slot;
  scanning->after = after;
  scanning->limits = limits;
  scanning->handler = std::move(handler);
  scanning->ask();
}

Future<ScanPage> Client::scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits) {
  auto [handler, future] = promised<ScanPage>();
  scan(scope, after, limits, std::move(handler));
  return std::move(future);
}

void Client::digest(const Scope& scope, protocol::DigestBy by, Handler<std::vector<protocol::DigestRow>> handler) {
  auto digesting = std::make_shared<Digesting>();
  digesting->core = core_;
  digesting->scope = scope;
  digesting->deadline = Clock::now() + core_->options.timeout;
  digesting->by = by;
  digesting->handler = std::move(handler);
  digesting->ask();
}

Future<std::vector<protocol::DigestRow>> Client::digest(const Scope& scope, protocol::DigestBy by) {
  auto [handler, future] = promised<std::vector<protocol::DigestRow>>();
  digest(scope, by, std::move(handler));
  return std::move(future);
}

}  // namespace zaris::client
