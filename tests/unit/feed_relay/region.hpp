// A region of nodes with real source sessions on real stores, one relay and one reader, wired without a network. Every node holds the
// same logs, as replicas do; who serves what is said by the test.
#pragma once
#include <deque>
#include <map>
#include <set>

#include "feed/relay/relay.hpp"
#include "tests/unit/feed_session/rig.hpp"

namespace zaris::feed {

inline constexpr std::uint32_t region_segments = 4;

class Region {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<store::Store> store;
    std::unique_ptr<store::Committer> committer;
    std::unique_ptr<store::DirtyMap> dirty;
    std::unique_ptr<SourceSession> session;        // of the relay's connection
    std::set<std::uint16_t> serves;
    std::map<std::uint16_t, std::uint64_t> ships;  // a bound on what may leave; absent: everything
    bool up = true, mute = false;                  // mute: takes, and says nothing
    std::uint64_t sessions = 0;
    std::size_t waiting = 0;                       // bytes that it has not taken
    std::vector<std::string> heard;                // messages that came
  };

  explicit Region(std::vector<std::string> names = {"a", "b"}, RigOptions options = {}, RelayOptions relay = {});
  ~Region();

  [[nodiscard]] Node& node(const std::string& name) { return nodes_.at(name); }
  [[nodiscard]] Relay& relay() { return *relay_; }
  [[nodiscard]] ReaderSession& reader() { return *reader_; }
  [[nodiscard]] Collector& user() { return user_; }

  // At every node alike; `only`: at that one, as what no replica has got yet.
  Position put(std::string_view key, std::string_view value, const std::string& only = {});
  [[nodiscard]] std::string key_in(SegmentId segment, std::string_view stem = "k", int skip = 0) const;

  // The segments are served there, of a new generation (at every node that is up), and the table says so unless it is kept back.
  void own(const std::string& name, std::vector<std::uint16_t> segments, bool new_generation = true);
  void nobody(std::vector<std::uint16_t> segments);
  void publish();                                  // a newer table
  void kill(const std::string& name);              // its connection breaks, too
  void cut(const std::string& name);               // the connection breaks, the node lives

  void hello();
  void change_gateway();                           // the session breaks; another may begin, at another gateway
  void subscribe(SegmentId segment, std::optional<NamedPosition> low);
  void subscribe_all_walks();
  void pump();                                     // until nobody has anything to say
  void upward();                                   // the reader's messages, and those to the nodes
  bool fetch(const std::string& name);             // one message of that node reaches the relay
  bool deliver();                                  // one message of the relay reaches the reader
  void advance(MonoMicros us);

  Now now{1'000'000, 1'790'000'000'000'000};
  std::function<void(std::string_view)> tap;       // sees every message that reaches the reader

 private:
  void act();

  RigOptions options_;
  RelayOptions relay_options_;
  std::shared_ptr<RoutingTable> table_;
  std::map<std::string, Node> nodes_;
  std::map<std::uint16_t, std::string> owners_;
  std::uint64_t version_ = 0;
  std::uint32_t generation_ = 100;
  Collector user_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<ReaderSession> reader_;
};

}  // namespace zaris::feed
