// A relay between a follower and two nodes that say whatever they like, in any order: what fits is passed on, what does not ends one
// connection; what is passed on can be read, and what waits here is bounded by what has come in.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "feed/relay/relay.hpp"

namespace {

using namespace zaris;
using namespace zaris::feed;

constexpr std::uint32_t segments = 4;

// The input as numbers, until it ends: zeros from there on.
class Numbers {
 public:
  Numbers(const std::uint8_t* data, std::size_t size) : at_(data), left_(size) {}
  [[nodiscard]] bool empty() const { return left_ == 0; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  std::uint32_t upto(std::uint32_t most) { return byte() % (most + 1); }
  SegmentId segment() { return SegmentId{static_cast<std::uint16_t>(upto(segments))}; }  // the last one is not there
  Position position() { return {Generation{7 + upto(2)}, Revision{byte()}}; }
  NamedPosition named() {
    NamedPosition at;
    at.at = position();
    at.generation_id = at.at.generation.value();
    return at;
  }
  std::string text() {
    const std::size_t size = std::min<std::size_t>(byte() | std::size_t{byte()} << 8, left_);
    std::string out(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    left_ -= size;
    return out;
  }
  std::optional<SlotKey> slot_key() {
    if (upto(1) == 0) return std::nullopt;
    return SlotKey{Slot{byte()}, std::string(1, static_cast<char>(byte()))};
  }

 private:
  const std::uint8_t* at_;
  std::size_t left_;
};

Lineage lineage(Numbers& in) {
  Root root;
  root.history = HistoryId{0xaa};
  std::vector<LineageEntry> entries{{Generation{7}, 7, Revision{1}, 0}};
  if (in.upto(1) == 1) entries.push_back({Generation{8}, 8, Revision{2 + in.upto(9)}, 0});
  return {root, std::move(entries)};
}

Welcome welcome(std::uint32_t count) {
  Welcome out;
  out.segments = count;
  out.roots.assign(count, Root{});
  for (Root& root : out.roots) root.history = HistoryId{0xaa};
  return out;
}

GatewayMessage from_node(Numbers& in, std::string& bytes) {
  switch (in.upto(11)) {
    case 0: return Subscribed{in.segment(), in.upto(1) == 0 ? std::optional<Position>() : in.position(), in.position(), Revision{in.byte()}, lineage(in), in.upto(3)};
    case 1: return StreamEnd{in.segment(), static_cast<EndReason>(1 + in.upto(15)), "over", {}, {}, Revision{in.byte()}, in.upto(3)};
    case 2: {
      Part part{in.segment(), Revision{in.byte()}, in.byte(), in.byte(), {}, in.position(), Generation{7 + in.upto(1)}, 0, {}, 0, false};
      bytes = in.text();
      part.bytes = bytes;
      return part;
    }
    case 3: {
      Progress progress{in.byte(), in.byte(), {}};
      for (auto n = in.upto(2); n > 0; --n) progress.rows.push_back({in.segment(), in.position(), in.position(), Revision{0}, 0, in.upto(1) == 0 ? std::nullopt : std::optional(in.position())});
      return progress;
    }
    case 4: return Chunk{in.segment(), in.slot_key(), in.slot_key(), in.named(), 0, {}, in.upto(1) == 0, {}, {}};
    case 5: {
      Records records;
      records.request = in.upto(3);
      records.segment = in.segment();
      for (auto n = in.upto(3); n > 0; --n) records.missing.push_back(in.upto(5));
      records.begin = in.upto(4);
      records.more = in.upto(1) == 1;
      return records;
    }
    case 6: return Digests{in.upto(3), in.segment(), in.named(), in.byte(), {}};
    case 7: {
      Pong pong{in.upto(3), {}, {}};
      for (auto n = in.upto(2); n > 0; --n) pong.rows.push_back({in.segment(), in.position()});
      if (in.upto(1) == 1) pong.unavailable.push_back(in.segment());
      return pong;
    }
    case 8: return welcome(1 + in.upto(7));
    case 9: return GoAway{"soon", 5};
    case 10: return ErrorMessage{in.upto(1) == 0 ? "unauthorised" : "busy", "no", true, 1};
    default: {
      Batch batch;
      for (auto n = in.upto(2); n > 0; --n) batch.runs.push_back({in.segment(), in.position(), Generation{7 + in.upto(1)}, Revision{in.byte()}, 0, false, {}, {}});
      return batch;
    }
  }
}

FollowerMessage from_follower(Numbers& in) {
  switch (in.upto(7)) {
    case 0: return Credit{std::uint64_t{in.byte()} << in.upto(40)};
    case 1: return Ack{in.byte(), {{in.segment(), in.position()}}};
    case 2: return FetchKeys{in.upto(3), in.segment(), std::vector<std::string>(in.upto(4), "k")};
    case 3: return DigestRequest{in.upto(3), in.segment(), in.slot_key(), in.slot_key()};
    case 4: return Ping{in.upto(3)};
    case 5: return Unsubscribe{{in.segment()}};
    default: {
      SubscribeSegment row{in.segment(), HistoryId{0xaa}, {}, {}, {}};
      if (in.upto(1) == 1) row.low = row.high = in.named();
      if (in.upto(1) == 1) row.walk = SubscribeSegment::Walk{in.slot_key(), {}};
      return Subscribe{{std::move(row)}};
    }
  }
}

class Session {
 public:
  Session() : relay_(Relay::create({}, {"follower", {Scope{}}})) {}

  void begin() {
    table(1, segments, 0b0011);
    Hello hello;
    hello.follower = "f";
    hello.link = "l";
    follower(encode(FollowerMessage{hello}));
    for (const char* node : {"a", "b"}) {
      relay_->on_node_open(node, now_);
      say(node, encode(GatewayMessage{welcome(segments)}));
    }
    follower(encode(FollowerMessage{Credit{1u << 20}}));
  }

  void step(Numbers& in) {
    const std::string node = in.upto(1) == 0 ? "a" : "b";
    switch (in.upto(9)) {
      case 0: follower(in.text()); break;
      case 1: say(node, in.text()); break;
      case 2:
      case 3: {
        std::string bytes;
        const GatewayMessage message = from_node(in, bytes);
        say(node, encode(message));
        break;
      }
      case 4: follower(encode(from_follower(in))); break;
      case 5: relay_->on_node_open(node, now_); break;
      case 6: relay_->on_node_closed(node, {"peer_closed", "gone", {}}, now_); break;
      case 7: table(1 + in.byte(), in.upto(9) == 9 ? 8 : segments, in.byte()); break;
      case 8:
        now_.mono_us += std::int64_t{in.byte()} << in.upto(16);
        relay_->on_tick(now_);
        break;
      default: {
        protocol::MapAnswer map;
        if (decode(in.text(), map)) relay_->on_table(std::make_shared<RoutingTable>(routing_table(map)), now_);
      }
    }
    drain();
  }

 private:
  void follower(const std::string& bytes) {
    came_ += bytes.size();
    relay_->on_message(bytes, now_);
  }
  void say(const std::string& node, std::string bytes) {
    came_ += bytes.size();
    relay_->on_node_message(node, std::make_shared<std::string>(std::move(bytes)), now_);
  }
  // A bit per segment: whose it is.
  void table(std::uint64_t version, std::uint32_t count, unsigned owners) {
    RoutingTable out;
    out.version = version;
    out.segments = count;
    out.nodes = {{"a", "host", 1}, {"b", "host", 2}};
    for (std::uint32_t s = 0; s < count; ++s) out.owners.push_back((owners >> s & 1u) != 0 ? 0 : (owners >> 6) == 3 ? -1 : 1);
    relay_->on_table(std::make_shared<RoutingTable>(std::move(out)), now_);
  }
  void drain() {
    (void)relay_->take_commands();
    (void)relay_->take_table_doubt();
    std::string out;
    for (; relay_->next_message(out, now_); out.clear()) {
      const auto message = decode_from_gateway(out);
      if (!message || !*message) std::abort();
    }
    for (const char* node : {"a", "b"}) {
      for (out.clear(); relay_->next_to_node(node, 0, out); out.clear()) {
        const auto message = decode_from_follower(out);
        if (!message || !*message) std::abort();
      }
    }
    if (relay_->held_bytes() > came_) std::abort();
  }

  Now now_{1'000'000, 1'790'000'000'000'000};
  std::unique_ptr<Relay> relay_;
  std::uint64_t came_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Numbers in(data, size);
  Session session;
  if (in.byte() % 8 != 0) session.begin();
  while (!in.empty()) session.step(in);
  return 0;
}
