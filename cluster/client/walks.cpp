// Scans and digests: run by run of segments with one owner, in (slot, key) order.
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

}  // namespace

void Client::scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits, Handler<ScanPage> handler) {
  Routing routing;
  {
    const std::lock_guard lock(core_->mutex);
    routing = core_->routing;
  }
  // A page never leaves one run of segments with one owner; where a run gave nothing more, the next one is asked.
  struct Step : std::enable_shared_from_this<Step> {
    std::shared_ptr<Core> core;
    Routing routing;
    Scope scope;
    ScanLimits limits;
    Handler<ScanPage> handler;

    void ask(std::size_t run, const std::optional<SlotKey>& from) {
      std::optional<Scope> part;
      while (run < routing.map().runs.size() && !(part = within(scope, routing.first_slot(run), routing.last_slot(run)))) ++run;
      if (run >= routing.map().runs.size()) return handler(ScanPage{});
      const protocol::ScanRequest request{routing.map().runs.size() == 1 ? scope.text() : part->text(), from, limits.records, limits.bytes, limits.keys_only};
      core->ask<protocol::ScanAnswer>(
          core->connection_of(routing.map().runs[run].node), "Scan",
          [&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); },
          [self = shared_from_this(), run, from](Result<protocol::ScanAnswer> answer) {
            if (!answer) return self->handler(tl::unexpected(std::move(answer.error())));
            const bool more_runs = run + 1 < self->routing.map().runs.size();
            // A node's token may lie behind its own run; what is next is the beginning of the next one.
            if (more_runs && answer->next && self->routing.last_slot(run) < answer->next->slot) answer->next.reset();
            if (answer->table.empty() && !answer->next && more_runs) return self->ask(run + 1, std::nullopt);
            ScanPage page{std::string(answer->table), std::string(answer->records), std::move(answer->next)};
            if (!page.next && more_runs) page.next = self->last_of(page);
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
  auto step = std::make_shared<Step>();
  step->core = core_;
  step->routing = std::move(routing);
  step->scope = scope;
  step->limits = limits;
  step->handler = std::move(handler);
  step->ask(after ? step->routing.run_at(after->slot) : 0, after);
}

Future<ScanPage> Client::scan(const Scope& scope, const std::optional<SlotKey>& after, const ScanLimits& limits) {
  auto [handler, future] = promised<ScanPage>();
  scan(scope, after, limits, std::move(handler));
  return std::move(future);
}

void Client::digest(const Scope& scope, protocol::DigestBy by, Handler<std::vector<protocol::DigestRow>> handler) {
  struct Step : std::enable_shared_from_this<Step> {
    std::shared_ptr<Core> core;
    Routing routing;
    Scope scope;
    protocol::DigestBy by;
    Handler<std::vector<protocol::DigestRow>> handler;
    std::map<std::uint32_t, protocol::DigestRow> rows;

    void ask(std::size_t run, Slot first) {
      if (run >= routing.map().runs.size()) {
        std::vector<protocol::DigestRow> out;
        if (by == protocol::DigestBy::total && rows.empty()) rows[0] = {};
        for (auto& [id, row] : rows) out.push_back(row);
        return handler(std::move(out));
      }
      const Slot last = routing.last_slot(run);
      const protocol::DigestRequest request{scope.text(), by, first, last};
      core->ask<protocol::DigestAnswer>(
          core->connection_of(routing.map().runs[run].node), "Digest",
          [&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); },
          [self = shared_from_this(), run, first, last](Result<protocol::DigestAnswer> answer) {
            if (!answer) return self->handler(tl::unexpected(std::move(answer.error())));
            for (const auto& part : answer->rows) {
              auto& row = self->rows[part.id];
              row.id = part.id;
              row.count += part.count;
              row.digest += part.digest;
            }
            if (answer->next) {
              if (*answer->next <= first || *answer->next > last) return self->handler(tl::unexpected(unreadable("Digest")));
              return self->ask(run, *answer->next);
            }
            const bool more = run + 1 < self->routing.map().runs.size();
            self->ask(run + 1, more ? self->routing.first_slot(run + 1) : Slot{0});
          });
    }
  };
  auto step = std::make_shared<Step>();
  step->core = core_;
  {
    const std::lock_guard lock(core_->mutex);
    step->routing = core_->routing;
  }
  step->scope = scope;
  step->by = by;
  step->handler = std::move(handler);
  if (step->routing.map().runs.empty()) return step->handler(failure("unavailable", "nobody owns any segment now"));
  step->ask(0, step->routing.first_slot(0));
}

Future<std::vector<protocol::DigestRow>> Client::digest(const Scope& scope, protocol::DigestBy by) {
  auto [handler, future] = promised<std::vector<protocol::DigestRow>>();
  digest(scope, by, std::move(handler));
  return std::move(future);
}

}  // namespace zaris::client
