// Three nodes that copy each other's segments over connections that break, delay and come back, and what is promised to clients
// of theirs. Everything is drawn from one seed. The shell's part is played here: roles, terms, the synchronised set,
// promotions, and a follower of another region that applies to segment 0.
#pragma once
#include <array>
#include <optional>
#include <random>
#include <set>

#include "cluster/replication/acknowledge.hpp"
#include "tests/unit/replication/line.hpp"
#include "tests/unit/store/link_fixture.hpp"

namespace zaris::replication {

class Region {
 public:
  static constexpr std::size_t nodes = 3;
  static constexpr std::uint32_t segments = 4;

  explicit Region(std::uint64_t seed);
  void step();      // anything may happen
  void heal();      // connections stand, nothing is written, until nothing moves
  void expect_all_equal();
  // What was seen of rare paths, so that a run which goes none of them proves nothing.
  std::map<std::string, std::uint64_t> probes;

 private:
  struct Acked {
    Position at;
    Durability policy;
  };
  struct Segment {
    std::size_t owner = 0;
    Generation generation;
    std::set<std::size_t> members;   // of the synchronised set, without the owner
    std::vector<Acked> acked;        // what must survive the next promotion
    // A member has what the term began with: before that the loss of this owner would be the second that the copies see.
    bool replaced = false;
    std::map<Ticket, Acked> waiting;
    std::map<Position, std::string> history;
  };
  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] bool chance(std::uint64_t one_in) { return draw(one_in) == 0; }
  [[nodiscard]] SegmentId some_segment() { return SegmentId{static_cast<std::uint16_t>(draw(segments))}; }
  Segment& at(SegmentId id) { return segments_[id.value()]; }
  store::Store& store(std::size_t node) { return *stores_[node]; }
  Line& line(std::size_t owner, std::size_t replica) { return *lines_[owner * nodes + replica]; }

  void write(SegmentId id);
  void written(SegmentId id, const store::WriteOutcome& outcome);
  void apply();
  void trim();
  void pin();
  void connect(std::size_t owner, std::size_t replica);
  void follow_again(std::size_t owner, std::size_t replica);
  void begin(SegmentId id, std::size_t node);
  void promote(SegmentId id);
  void pull(SegmentId id, std::size_t from, std::size_t to);
  void restart_blank(std::size_t node);
  void move_lines(bool everything);
  void look();
  void set_members(SegmentId id, std::set<std::size_t> members);
  void check_done(SegmentId id, const Acked& acked);
  [[nodiscard]] bool holds(std::size_t node, SegmentId id, Position position);
  [[nodiscard]] std::string key(SegmentId id, std::uint64_t n) { return keys_[id.value()][n % keys_[id.value()].size()]; }

  std::mt19937_64 random_;
  Now now_{1'000'000, store::start_time};
  std::uint32_t generation_ = 10;
  std::array<std::unique_ptr<store::Store>, nodes> stores_;
  std::vector<std::unique_ptr<Line>> lines_;
  std::array<Segment, segments> segments_;
  std::array<std::unique_ptr<HeldPositions>, nodes> held_;
  std::array<std::unique_ptr<Acknowledge>, nodes> waits_;
  std::vector<std::vector<std::string>> keys_;
  std::vector<store::PinKey> pin_keys_;
  std::unique_ptr<store::Store> source_ = store::make_store(segments, 0xa);
  std::unique_ptr<store::Linked> link_;
  Scope linked_scope_ = *Scope::make({"m"});
  std::vector<std::string> linked_keys_;
  std::uint64_t follower_term_ = 0;
};

}  // namespace zaris::replication
