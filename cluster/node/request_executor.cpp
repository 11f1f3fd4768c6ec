#include "cluster/node/request_executor.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "cluster/base/assert.hpp"
#include "cluster/logging/event_log.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/protocol/pack.hpp"

namespace zaris::node {

using protocol::Opcode;

RequestExecutor::RequestExecutor(NodeShared& node, WorkerCounts& counts)
    : node_(node),
      counts_(counts),
      committer_(node.store.committer()),
      clock_([] {
        return static_cast<WallMicros>(
            std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
      }),
      frame_max_(protocol::frame_bytes_max(node.config.limits.key, node.config.limits.value)) {
  if (!node.region) return;
  held_ = std::make_unique<HeldAnswers>(node.region->held, node.config.segments);
  turns_ = &node.region->serving.add_thread();
}

RequestExecutor::~RequestExecutor() = default;

void RequestExecutor::begin_round() {
  if (turns_ != nullptr) turns_->begin();
  now_ = committer_->begin(clock_);
}
void RequestExecutor::end_round() {
  committer_->idle();
  if (turns_ != nullptr) turns_->end();
  if (waits_.load(std::memory_order_relaxed) && !held_->waiting()) waits_.store(false);  // what was expected to wait did not
}

void RequestExecutor::count(std::uint8_t opcode, Status status) {
  const std::size_t slot = opcode < command_slots ? opcode : 0;
  counts_.commands[slot][static_cast<std::size_t>(result_of(status))].add();
}

namespace {

// What changes what this region is or holds, on an operator's or a follower's word.
bool audited(Opcode opcode) {
  return opcode == Opcode::accept_empty || opcode == Opcode::drain_node || opcode == Opcode::drop_pin || opcode == Opcode::open_link || opcode == Opcode::drop_link || opcode == Opcode::drop_scope;
}

}  // namespace

void RequestExecutor::execute(const Frame& frame, const Requester& who, std::string& out) {
  Status status = Status::unsupported;
  switch (static_cast<Opcode>(frame.header.opcode)) {
    case Opcode::get: status = get(frame, out); break;
    case Opcode::put: status = put(frame, out); break;
    case Opcode::del: status = del(frame, out); break;
    case Opcode::touch: status = touch(frame, out); break;
    case Opcode::time_to_live: status = time_to_live(frame, out); break;
    case Opcode::batch: status = batch(frame, out); break;
    case Opcode::apply_batch: status = apply_batch(frame, out); break;
    case Opcode::scan: status = scan(frame, out); break;
    case Opcode::digest: status = digest(frame, out); break;
    case Opcode::status: status = this->status(frame, out); break;
    case Opcode::map: status = map(frame, out); break;
    case Opcode::accept_empty: status = accept_empty(frame, out); break;
    case Opcode::region_status: status = region_status(frame, out); break;
    case Opcode::drain_node: status = drain_node(frame, out); break;
    case Opcode::copies: status = copies(frame, out); break;
    case Opcode::list_pins: status = list_pins(frame, out); break;
    case Opcode::drop_pin: status = drop_pin(frame, out); break;
    case Opcode::open_link: status = open_link(frame, out); break;
    case Opcode::read_marks: status = read_marks(frame, out); break;
    case Opcode::mark_checksum: status = mark_checksum(frame, out); break;
    case Opcode::list_links: status = list_links(frame, out); break;
    case Opcode::drop_link: status = drop_link(frame, out); break;
    case Opcode::drop_scope: status = drop_scope(frame, out); break;
    case Opcode::follower_lease: status = follower_lease(frame, out); break;
    case Opcode::list_rolled_back: status = list_rolled_back(frame, out); break;
    default:
      counts_.unsupported.add();
      status = refuse(frame, out, Status::unsupported, "this node does not know that operation", "upgrade the node, or use an older client");
  }
  count(frame.header.opcode, status);
  if (const auto opcode = static_cast<Opcode>(frame.header.opcode); audited(opcode)) [[unlikely]] {
    logging::write(logging::Level::info, "audit", std::string(name(opcode)) + ": " + std::string(name(status)),
                   {{"operation", std::string(name(opcode))}, {"status", std::string(name(status))}, {"principal", printable(who.principal)}, {"program", printable(who.program)}});
  }
}

std::size_t RequestExecutor::look_ahead(const protocol::FrameParser& parser, std::string_view in) {
  constexpr std::size_t at_once = 32, worth_it = 4;
  if (!node_.prefetch.load(std::memory_order_relaxed)) return 0;
  std::string_view keys[at_once];
  std::size_t frames = 0, found = 0;
  protocol::Frame frame;
  while (frames < at_once) {
    const auto parsed = parser.parse(in, frame);
    if (parsed.step != protocol::FrameStep::frame) break;
    in.remove_prefix(parsed.consumed);
    ++frames;
    switch (static_cast<Opcode>(frame.header.opcode)) {
      case Opcode::get:
      case Opcode::put:
      case Opcode::del:
      case Opcode::touch:
      case Opcode::time_to_live: {
        protocol::Unpacker body(frame.body);
        if (body.array() > 0) keys[found] = body.bytes();
        if (body.ok()) ++found;
        break;
      }
      default: break;
    }
  }
  if (found >= worth_it) node_.store.prefetch({keys, found});
  return frames;
}

std::size_t RequestExecutor::look_ahead(protocol::BatchRequest& items) {
  constexpr std::size_t at_once = 32;
  std::string_view keys[at_once];
  std::size_t found = 0;
  protocol::BatchItem item;
  while (found < at_once && items.next(item)) keys[found++] = item.key;
  if (found > 1 && node_.prefetch.load(std::memory_order_relaxed)) node_.store.prefetch({keys, found});
  return std::max<std::size_t>(1, found);
}

Status RequestExecutor::refuse(const Frame& frame, std::string& out, Status status, std::string_view reason, std::string_view hint) {
  protocol::encode_error(out, static_cast<Opcode>(frame.header.opcode), status, frame.header.correlation, reason, hint);
  return status;
}

Status RequestExecutor::malformed(const Frame& frame, std::string& out) {
  return refuse(frame, out, Status::invalid_argument, "the request's arguments are not what this operation takes");
}

bool RequestExecutor::note_data() {
  if (node_.data_noted.load(std::memory_order_acquire)) return true;
  if (!node_.coordinator.note_data()) return false;
  node_.data_noted.store(true, std::memory_order_release);
  return true;
}

namespace {

MonoMicros boot_now() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return static_cast<MonoMicros>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000;
}

constexpr std::string_view too_strong_text = "that durability is stronger than this store admits";
constexpr std::string_view too_strong_hint = "replication.ack_max of the region's nodes";
constexpr std::string_view holding_text = "this node had data before and started empty; it was told to hold";
constexpr std::string_view holding_hint = "refill it over a link, or zaris node accept-empty";
}  // namespace

Status RequestExecutor::get(const Frame& frame, std::string& out) {
  protocol::KeyRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, holding_text, holding_hint);
  if (Status status; node_.region && elsewhere(frame, segment_of_key(request.key), out, status)) return status;
  const std::size_t at = out.size();
  out.append(protocol::get_answer_prefix_bytes, '\0');
  const store::ReadOutcome read = node_.store.get(request.key, now_, out);
  protocol::finish_get_answer(out, at, frame.header.correlation, read.status, read.token, read.expires_us);
  return read.status;
}

Status RequestExecutor::time_to_live(const Frame& frame, std::string& out) {
  protocol::KeyRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, holding_text, holding_hint);
  if (Status status; node_.region && elsewhere(frame, segment_of_key(request.key), out, status)) return status;
  scratch_.clear();
  const store::ReadOutcome read = node_.store.get(request.key, now_, scratch_);
  protocol::encode_time_to_live_answer(out, frame.header.correlation, read.status, read.token, read.expires_us);
  return read.status;
}

store::WriteOutcome RequestExecutor::write(Opcode opcode, std::string_view key, std::string_view value, WallMicros expires_us,
                                           const protocol::Condition& condition, Durability durability) {
  using Kind = protocol::Condition::Kind;
  std::optional<ItemToken> expected;
  if (condition.kind == Kind::token) expected = condition.token;
  if (Durability policy; node_.region && policy_of(durability, policy)) expect_to_hold(policy);
  store::WriteOutcome outcome;
  switch (opcode) {
    case Opcode::put:
      outcome = node_.store.put({key, value, expires_us, expected, condition.kind == Kind::absent}, now_);
      break;
    case Opcode::del: outcome = node_.store.del(key, expected, now_); break;
    default: outcome = node_.store.touch(key, expires_us, expected, now_); break;
  }
  if (outcome.status == Status::ok) {
    if (!note_data()) outcome.status = Status::unavailable;
    // One process is the region: there is no replica to wait for. The write stands and the client is told.
    if (!node_.region && durability == Durability::replica) outcome.status = Status::durability_not_met;
  }
  return outcome;
}

Status RequestExecutor::put(const Frame& frame, std::string& out) {
  protocol::PutRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, holding_text, holding_hint);
  if (Status status; node_.region && elsewhere(frame, segment_of_key(request.key), out, status)) return status;
  return written(Opcode::put, frame, write(Opcode::put, request.key, request.value, request.expires_us, request.condition, request.durability), request.durability, out);
}

Status RequestExecutor::del(const Frame& frame, std::string& out) {
  protocol::DeleteRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, holding_text, holding_hint);
  if (Status status; node_.region && elsewhere(frame, segment_of_key(request.key), out, status)) return status;
  return written(Opcode::del, frame, write(Opcode::del, request.key, {}, 0, request.condition, request.durability), request.durability, out);
}

Status RequestExecutor::touch(const Frame& frame, std::string& out) {
  protocol::TouchRequest request;
  if (!decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, holding_text, holding_hint);
  if (Status status; node_.region && elsewhere(frame, segment_of_key(request.key), out, status)) return status;
  return written(Opcode::touch, frame, write(Opcode::touch, request.key, {}, request.expires_us, request.condition, request.durability), request.durability, out);
}

Status RequestExecutor::batch(const Frame& frame, std::string& out) {
  protocol::BatchRequest request;
  if (!protocol::BatchRequest::decode(frame.body, request)) return malformed(frame, out);
  if (holding()) return refuse(frame, out, Status::unavailable, holding_text, holding_hint);
  Durability policy = Durability::owner;
  if (node_.region && !policy_of(request.durability(), policy)) return refuse(frame, out, Status::invalid_argument, too_strong_text, too_strong_hint);
  std::vector<HeldItem> wait;
  const std::size_t at = out.size();
  protocol::BatchAnswerWriter answer(out, frame.header.correlation);
  protocol::BatchRequest ahead = request;
  protocol::BatchItem item;
  std::size_t looked_at = 0;
  while (request.next(item)) {
    if (looked_at == 0) looked_at = look_ahead(ahead);
    --looked_at;
    if (node_.region && item_elsewhere(item, answer)) continue;
    switch (item.opcode) {
      case Opcode::get: {
        scratch_.clear();
        const store::ReadOutcome read = node_.store.get(item.key, now_, scratch_);
        // An answer has the length that any frame may have; what does not fit into it is asked for again by itself.
        const bool fits = out.size() - at + scratch_.size() + 64 <= frame_max_;
        if (!fits) answer.write(Status::capacity_exceeded, {});
        else answer.read(read.status, read.token, read.expires_us, scratch_);
        break;
      }
      case Opcode::time_to_live: {
        scratch_.clear();
        const store::ReadOutcome read = node_.store.get(item.key, now_, scratch_);
        answer.time_to_live(read.status, read.token, read.expires_us);
        break;
      }
      case Opcode::put:
      case Opcode::del:
      case Opcode::touch: {
        const auto outcome = write(item.opcode, item.key, item.value, item.expires_us, item.condition, request.durability());
        if (outcome.status == Status::ok && policy > Durability::owner) wait.push_back({outcome.segment, outcome.position, 0, out.size() - at + 1});
        answer.write(outcome.status, outcome.token);
        break;
      }
      default: answer.write(Status::unsupported, {});
    }
  }
  if (!request.ok()) {
    out.resize(at);
    return refuse(frame, out, Status::invalid_argument, "a batch item is malformed; the items before it stand");
  }
  answer.finish();
  if (!wait.empty()) hold(out, at, wait, policy);
  return Status::ok;
}

// ---- one of several nodes -----------------------------------------------------------------------------------------

void RequestExecutor::begin_read(std::uint64_t connection) {
  connection_ = connection;
  touched_.clear();
  if (node_.region) boot_now_ = boot_now();
}

bool RequestExecutor::may_answer() const {
  if (touched_.empty()) return true;
  const MonoMicros now = boot_now();
  return std::all_of(touched_.begin(), touched_.end(), [&](SegmentId segment) { return node_.region->serving.answers(segment, now); });
}

SegmentId RequestExecutor::segment_of_key(std::string_view key) const { return segment_of(slot_of(key), node_.config.segments); }

bool RequestExecutor::elsewhere(const Frame& frame, SegmentId segment, std::string& out, Status& status) {
  if (node_.region->serving.serves(segment, boot_now_)) {
    if (touched_.empty() || touched_.back() != segment) touched_.push_back(segment);
    return false;
  }
  const auto map = node_.region->map();
  std::string owner;
  if (map) {
    for (const protocol::MapRun& run : map->runs) {
      if (run.first <= segment && segment <= run.last) owner = map->nodes[run.node].id;
    }
  }
  if (owner.empty()) status = refuse(frame, out, Status::unavailable, "nobody serves that segment now", "`zaris status` says what its partition waits for");
  else if (owner == node_.config.node.name) status = refuse(frame, out, Status::ownership_changing, "this node does not serve that segment yet, or not any more");
  else status = refuse(frame, out, Status::moved, "node " + owner + " serves that segment");
  return true;
}

bool RequestExecutor::elsewhere(const Frame& frame, Slot first, Slot last, std::string& out, Status& status) {
  for (std::uint32_t i = segment_of(first, node_.config.segments).value(); i <= segment_of(last, node_.config.segments).value(); ++i) {
    if (elsewhere(frame, SegmentId{static_cast<std::uint16_t>(i)}, out, status)) return true;
  }
  return false;
}

bool RequestExecutor::item_elsewhere(const protocol::BatchItem& item, protocol::BatchAnswerWriter& answer) {
  const SegmentId segment = segment_of_key(item.key);
  if (node_.region->serving.serves(segment, boot_now_)) {
    if (touched_.empty() || touched_.back() != segment) touched_.push_back(segment);
    return false;
  }
  if (item.opcode == Opcode::get) answer.read(Status::moved, {}, 0, {});
  else if (item.opcode == Opcode::time_to_live) answer.time_to_live(Status::moved, {}, 0);
  else answer.write(Status::moved, {});
  return true;
}

bool RequestExecutor::policy_of(Durability asked, Durability& policy) const {
  policy = asked == Durability::store_default ? node_.region->ack : asked;
  return policy <= node_.region->ack_max;
}

bool RequestExecutor::link_policy_of(Durability asked, Durability& policy) const {
  if (!policy_of(asked, policy)) return false;
  if (asked == Durability::store_default && node_.config.replication.factor > 1) policy = std::min(std::max(policy, Durability::replica), node_.region->ack_max);
  return true;
}

void RequestExecutor::hold(std::string& out, std::size_t at, std::span<const HeldItem> items, Durability policy) {
  if (!held_->hold(connection_, out, at, items, policy, boot_now_ + node_.region->ack_timeout_us)) return;
  ++held_of_[connection_];
  node_.region->hurry();
}

Status RequestExecutor::written(Opcode opcode, const Frame& frame, const store::WriteOutcome& outcome, Durability asked, std::string& out) {
  Durability policy = Durability::owner;
  const std::size_t at = out.size();
  Status status = outcome.status;
  // The write stands; what it was to wait for is more than this store ever promises.
  if (node_.region && status == Status::ok && !policy_of(asked, policy)) status = Status::durability_not_met;
  encode(out, opcode, frame.header.correlation, protocol::WriteAnswer{status, outcome.token, outcome.segment, outcome.position});
  if (status == Status::ok && policy > Durability::owner) {
    const HeldItem item{outcome.segment, outcome.position, 0, 6};
    hold(out, at, {&item, 1}, policy);
  }
  return status;
}

void RequestExecutor::collect_held(std::vector<HeldAnswers::Ready>& ready) {
  if (!held_) return;
  const std::size_t before = ready.size();
  held_->collect(boot_now(), ready);
  for (std::size_t i = before; i < ready.size(); ++i) {
    const auto of = held_of_.find(ready[i].connection);
    if (of != held_of_.end() && --of->second == 0) held_of_.erase(of);
  }
  if (!held_->waiting()) waits_.store(false);
}

std::uint64_t RequestExecutor::held_by(std::uint64_t connection) const {
  const auto of = held_of_.find(connection);
  return of == held_of_.end() ? 0 : of->second;
}

}  // namespace zaris::node
