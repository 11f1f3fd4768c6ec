#include "follower/shell/target.hpp"

#include <algorithm>
#include <utility>

namespace zaris::follower {
namespace {

constexpr std::uint64_t enough_bytes = 128u << 10;  // in flight on a connection, before another one is taken

// What an apply's views point into, as one thing to hold.
struct Held {
  std::vector<std::shared_ptr<const std::string>> buffers;
  std::shared_ptr<const std::string> link_name;
};

}  // namespace

Target::Target(std::shared_ptr<client::Loop> loop, client::ClientOptions options, std::uint32_t workers)
    : loop_(std::move(loop)), options_(std::move(options)), workers_(std::max(workers, 1u)) {}

Target::~Target() {
  *alive_ = false;
  for (auto& w : workers_) {
    if (w.connection) w.connection->close();
  }
}

Target::Route& Target::route(SegmentId source) {
  if (source.value() >= routes_.size()) routes_.resize(source.value() + 1u);
  Route& route = routes_[source.value()];
  if (route.in_flight == 0) {
    const auto with_room = std::find_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.bytes < enough_bytes; });
    const auto least = std::min_element(workers_.begin(), workers_.end(), [](const Worker& a, const Worker& b) { return a.bytes < b.bytes; });
    route.worker = static_cast<std::size_t>((with_room != workers_.end() ? with_room : least) - workers_.begin());
  }
  return route;
}

client::TargetConnection& Target::connection(std::size_t worker) {
  auto& c = workers_[worker].connection;
  if (!c || c->down()) c = client::TargetConnection::open(loop_, options_, seed_++ % options_.seeds.size(), {});
  return *c;
}

void Target::open_link(const OpenLinkRequest& request, std::function<void(Result<TargetInfo>, Status)> handler) {
  // A new attempt begins on connections of its own: what an old one still carries belongs to a session that is over.
  ++session_;
  routes_.clear();
  for (auto& w : workers_) {
    if (w.connection) w.connection->close();
    w = Worker{};
  }
  protocol::OpenLinkRequest open;
  open.link = request.link;
  open.source_cluster = request.source;
  open.scope_text = request.scope.text();
  open.site_epoch = request.site_epoch;
  open.follower_term = request.term;
  open.adopt_data = request.adopt_data;
  connection(0).open_link(open, [alive = alive_, handler = std::move(handler)](Result<protocol::OpenLinkAnswer> answer, Status status) {
    if (!*alive) return;
    if (!answer) return handler(tl::unexpected(answer.error()), status);
    TargetInfo info;
    info.cluster = answer->cluster;
    info.segments = answer->segments;
    info.key_bytes_max = answer->key_bytes_max;
    info.value_bytes_max = answer->value_bytes_max;
    info.memory_max_bytes = answer->memory_max_bytes;
    info.live_bytes = answer->live_bytes;
    info.live_keys = answer->live_keys;
    info.generation_seen = answer->generation_seen;
    handler(info, status);
  });
}

void Target::read_marks(const ReadMarksRequest& request, std::function<void(Result<MarksAnswer>)> handler) {
  connection(0).read_marks(request.link, request.scope,
                           [alive = alive_, link = request.link, scope = request.scope, handler = std::move(handler)](Result<std::vector<protocol::MarkAnswerRow>> rows) {
                             if (!*alive) return;
                             if (!rows) return handler(tl::unexpected(rows.error()));
                             MarksAnswer answer;
                             for (auto& row : *rows) {
                               answer.marks.push_back({row.target_segment, {MarkKey{link, scope, row.source_segment}, std::move(row.mark)}});
                             }
                             handler(std::move(answer));
                           });
}

void Target::mark_checksum(const MarkChecksumRequest& request, std::function<void(Result<std::uint64_t>)> handler) {
  connection(0).mark_checksum(request.link, request.scope, [alive = alive_, handler = std::move(handler)](Result<std::uint64_t> sum) {
    if (*alive) handler(std::move(sum));
  });
}

void Target::apply(ApplyRequest request, std::function<void(Result<ApplyAnswer>)> handler) {
  const SegmentId source = request.batch.source_segment;
  Route& way = route(source);
  auto hold = std::make_shared<Held>();
  hold->buffers = std::move(request.hold);
  hold->link_name = std::move(request.link_name);
  // Not reopened here: a batch must not overtake what was lost with the connection before it.
  if (const auto& c = workers_[way.worker].connection; c && c->down()) {
    return loop_->post([alive = alive_, handler = std::move(handler)] {
      if (*alive) handler(failure("unreachable", "the connection to the target is gone"));
    });
  }
  const std::uint64_t bytes = request.batch.records.size() + request.batch.table.size();
  const std::size_t worker = way.worker;
  ++way.in_flight;
  workers_[worker].bytes += bytes;
  connection(worker).apply(request.batch, std::move(hold),
                           [this, alive = alive_, session = session_, source, worker, bytes, handler = std::move(handler)](Result<ApplyAnswer> answer) {
                             if (!*alive) return;
                             if (session == session_) {
                               --routes_[source.value()].in_flight;
                               workers_[worker].bytes -= bytes;
                             }
                             handler(std::move(answer));
                           });
}

}  // namespace zaris::follower
