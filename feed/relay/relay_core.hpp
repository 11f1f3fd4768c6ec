// The inside of Relay; see relay.hpp. Included by this folder's .cpp files only.
#pragma once
#include <deque>
#include <map>
#include <variant>

#include "feed/relay/relay.hpp"

namespace zaris::feed {

class RelayCore final : public Relay {
 public:
  RelayCore(RelayOptions options, Principal principal) : options_(options), principal_(std::move(principal)) {}

  void on_message(std::string_view bytes, Now now) override;
  bool next_message(std::string& out, Now now) override;
  void end(EndReason reason, std::string_view text) override;
  std::optional<SessionEnd> ended() const override { return ended_; }
  const std::optional<Hello>& hello() const override { return hello_; }
  std::uint64_t credit_left() const override { return credit_ > 0 ? static_cast<std::uint64_t>(credit_) : 0; }

  void on_table(std::shared_ptr<const RoutingTable> table, Now now) override;
  void on_node_open(const std::string& node, Now now) override;
  void on_node_message(const std::string& node, std::shared_ptr<const std::string> bytes, Now now) override;
  void on_node_closed(const std::string& node, const Error& why, Now now) override;
  bool next_to_node(const std::string& node, std::size_t waiting, std::string& out) override;
  std::vector<RelayCommand> take_commands() override { return std::exchange(commands_, {}); }
  bool take_table_doubt() override { return std::exchange(table_doubt_, false); }

  void on_tick(Now now) override;
  RelayCounters counters() const override { return counters_; }
  std::uint64_t held_bytes() const override;

 private:
  using Bytes = std::shared_ptr<const std::string>;
  struct Upstream {
    enum class State : std::uint8_t { away, dialling, greeting, welcomed } state = State::away;
    std::string id, host;
    std::uint16_t port = 0;
    MonoMicros retry_at = 0, retry_us = 0;
    MonoMicros heard = 0;
    std::deque<std::string> out;
    std::deque<Bytes> inbox;
    std::size_t inbox_bytes = 0;
    struct Record {                              // that is on its way in parts
      SegmentId segment;
      Position at;
      std::uint64_t total = 0, received = 0;
    };
    std::optional<Record> record;
    std::vector<Bytes> parts;                    // of it
    std::uint64_t parts_bytes = 0;
    std::int64_t given = 0;                      // credit, less what came and was passed on or thrown away
    std::vector<std::uint32_t> subscriptions;    // one per segment: Subscribes of it in this session
    std::uint32_t attached = 0, live = 0;        // segments
    std::optional<Welcome> welcome;
    std::optional<WallMicros> closed_us;         // of its last Progress since a segment became live there
    std::optional<MonoMicros> echoed;            // its newest Pong
  };
  struct Segment {
    bool wanted = false;                         // from Subscribe to StreamEnd or Unsubscribe
    bool answered = false;                       // Subscribed has been told
    std::uint32_t subscription = 0;              // of the follower
    SubscribeSegment asked;
    std::optional<Position> sent;                // what the follower holds
    std::optional<Position> acked;
    Lineage lineage;                             // as told
    bool walking = false;
    std::optional<SlotKey> walk_at;
    Upstream* at = nullptr;                      // attached to
    std::uint32_t at_subscription = 0;
    bool live = false;                           // it has answered
    std::optional<MonoMicros> echoed;            // the newest Ping that its node has answered for it
    MonoMicros retry_at = 0;
  };
  struct Request {
    std::variant<FetchKeys, DigestRequest> asked;
    std::uint32_t answered = 0;                  // keys, by whichever node
    std::uint32_t base = 0;                      // keys that had been when `at` was asked
    Upstream* at = nullptr;
    [[nodiscard]] SegmentId segment() const {
      return std::visit([](const auto& r) { return r.segment; }, asked);
    }
    [[nodiscard]] std::uint64_t number() const {
      return std::visit([](const auto& r) { return r.request; }, asked);
    }
  };
  enum class Passed : std::uint8_t { message, nothing, blocked };

  // ---- relay_follower.cpp: what the follower says
  void handle(Hello& m);
  void handle(Subscribe& m);
  void handle(Unsubscribe& m);
  void handle(Credit& m);
  void handle(Ack& m);
  void handle(FetchKeys& m);
  void handle(DigestRequest& m);
  void handle(Ping& m);
  void refuse(std::string code, std::string text, bool protocol_error, bool retry = false);
  void check_welcome();

  // ---- relay_nodes.cpp: nodes come and go, segments are attached
  [[nodiscard]] Upstream* find(const std::string& node);
  void dial_owners();
  void attach();
  void attach_requests();
  void detach(Segment& s);
  void unsubscribe(SegmentId id);
  void lost(Upstream& u, bool by_itself);
  void broken(Upstream& u, std::string_view why);
  void distribute(bool fully);
  void send(Upstream& u, const FollowerMessage& message) { u.out.push_back(encode(message)); }

  // ---- relay_pass.cpp: what nodes say, in its order
  Passed pass(Upstream& u, std::string& out);
  Passed on(Upstream& u, Subscribed& m, std::string& out);
  Passed on(Upstream& u, StreamEnd& m, std::string& out);
  Passed on(Upstream& u, Batch& m, std::string_view bytes, std::string& out);
  Passed on(Upstream& u, Part& m, const Bytes& bytes, std::string& out);
  Passed on(Upstream& u, Chunk& m, std::string_view bytes, std::string& out);
  Passed on(Upstream& u, Records& m, std::string_view bytes, std::string& out);
  Passed on(Upstream& u, Digests& m, std::string_view bytes, std::string& out);
  Passed on(Upstream& u, Progress& m, std::string& out);
  Passed on(Upstream& u, Pong& m, std::string& out);
  [[nodiscard]] bool current(const Upstream& u, SegmentId id) const;
  [[nodiscard]] bool may_send(std::uint64_t bytes);
  void charge(Upstream& u, std::uint64_t came, std::uint64_t passed);
  void say_pong(std::string& out);
  [[nodiscard]] WallMicros closed_time();

  Segment& at(SegmentId id) { return segments_[id.value()]; }
  [[nodiscard]] SegmentId id_of(std::size_t index) const { return SegmentId{static_cast<std::uint16_t>(index)}; }

  const RelayOptions options_;
  const Principal principal_;
  std::shared_ptr<const RoutingTable> table_;
  std::optional<Hello> hello_;
  std::optional<SessionEnd> ended_;
  bool welcomed_ = false;
  MonoMicros hello_at_ = 0;
  Now now_;
  std::optional<MonoMicros> last_heard_;
  MonoMicros last_said_ = 0;
  RelayCounters counters_;

  std::vector<Segment> segments_;                // empty before Welcome
  std::uint32_t wanted_ = 0, live_ = 0;
  std::map<std::string, Upstream> upstreams_;    // by name; never erased while a segment is attached
  std::string turn_;                             // round-robin: whose messages came last
  std::vector<RelayCommand> commands_;
  bool table_doubt_ = false;

  std::deque<std::string> control_;
  std::deque<Bytes> parts_out_;                  // of one large record: nothing goes between
  std::int64_t credit_ = 0, window_ = 0;         // the follower's, as in Source
  bool oversize_waits_ = false;                  // for all credit to be free: nobody gets more until then
  std::deque<Request> requests_;
  std::size_t request_bytes_ = 0;

  WallMicros closed_us_ = 0;                     // as told
  WallMicros source_clock_us_ = 0;
  std::optional<MonoMicros> ping_;               // not echoed yet
  std::vector<PongRow> pong_rows_;               // heads that no Pong has told
  bool pong_due_ = false;                        // with what has been answered
};

}  // namespace zaris::feed
