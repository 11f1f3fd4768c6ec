// How a replica takes what an owner holds: a table of all that decides it.
#include <gtest/gtest.h>

#include "cluster/replication/reconcile.hpp"

namespace zaris::replication {
namespace {

constexpr HistoryId history{0xdef};

Position at(std::uint32_t generation, std::uint64_t revision) { return {Generation{generation}, Revision{revision}}; }

// Generations 5 (from 1), 7 (from 100), 9 (from 200); head 250; the log reaches back to 150.
SourceView source() {
  SourceView view;
  view.role = store::SegmentRole::owner;
  view.lineage = Lineage(Root{history, Generation{5}, 0, RootCause::created},
                         {{Generation{5}, 50, Revision{1}, 0}, {Generation{7}, 70, Revision{100}, 0}, {Generation{9}, 90, Revision{200}, 0}});
  view.head = at(9, 250);
  view.floor = Revision{150};
  view.count = 10;
  view.digest = Digest{1, 2};
  return view;
}
FollowRow replica(Position head, std::uint64_t id, bool equal = false) {
  FollowRow row;
  row.generation = Generation{9};
  row.history = history;
  row.head = {head, id};
  row.count = equal ? 10 : 9;
  row.digest = equal ? Digest{1, 2} : Digest{1, 3};
  return row;
}
FollowRow blank(bool equal = false) {
  FollowRow row = replica({}, 0, equal);
  row.history.reset();
  return row;
}

struct Case {
  const char* story;
  SourceView source;
  FollowRow replica;
  bool pull;
  FollowHow how;
  Refusal refusal = Refusal::none;
};

std::vector<Case> table() {
  const auto with = [](SourceView view, auto&& change) {
    change(view);
    return view;
  };
  const auto as = [](FollowRow row, auto&& change) {
    change(row);
    return row;
  };
  using enum FollowHow;
  const SourceView follower = with(source(), [](SourceView& v) { v.role = store::SegmentRole::replica; });
  const auto copying = [](FollowRow& r) { r.copying = true; };
  return {
      {"at the head", source(), replica(at(9, 250), 90), false, log},
      {"behind in the last generation", source(), replica(at(9, 210), 90), false, log},
      {"behind in the generation before", source(), replica(at(7, 199), 70), false, log},
      {"just above the floor", source(), replica(at(7, 149), 70), false, log},
      {"below the floor", source(), replica(at(7, 148), 70), false, copy},
      {"below the floor with the same content", source(), replica(at(7, 148), 70, true), false, equal},
      {"a tail that did not survive", source(), replica(at(7, 205), 70), false, copy},
      {"a tail that did not survive and brought nothing", source(), replica(at(7, 205), 70, true), false, equal},
      {"a generation that the owner never had", source(), replica(at(8, 160), 80), false, copy},
      {"the same number, minted twice", source(), replica(at(9, 210), 91), false, copy},
      {"beyond the owner's head", source(), replica(at(9, 251), 90), false, copy},
      {"another history", source(), as(replica(at(9, 210), 90), [](FollowRow& r) { r.history = HistoryId{1}; }), false, copy},
      {"another history with the same content", source(), as(replica(at(9, 210), 90, true), [](FollowRow& r) { r.history = HistoryId{1}; }), false, equal},
      {"a copy that is not whole, at the head", source(), as(replica(at(9, 250), 90), copying), false, copy},
      {"a copy that is not whole but holds everything", source(), as(replica(at(9, 250), 90, true), copying), false, equal},
      {"blank, and the log has been trimmed", source(), blank(), false, copy},
      {"blank, and so is the owner", with(source(), [](SourceView& v) { v.count = 9, v.digest = Digest{1, 3}; }), blank(), false, equal},
      {"blank, and the log is whole", with(source(), [](SourceView& v) { v.floor = Revision{1}; }), blank(), false, log},
      {"the owner's log is empty, the replica at its head", with(source(), [](SourceView& v) { v.floor = Revision{251}; }), replica(at(9, 250), 90), false, log},
      {"the owner's log is empty, the replica behind", with(source(), [](SourceView& v) { v.floor = Revision{251}; }), replica(at(9, 249), 90), false, copy},
      {"the replica has heard of a newer term", source(), as(replica(at(9, 250), 90), [](FollowRow& r) { r.generation = Generation{10}; }), false, refused, Refusal::older_generation},
      {"the replica has heard of an older term", source(), as(replica(at(9, 250), 90), [](FollowRow& r) { r.generation = Generation{7}; }), false, log},
      {"not the owner", follower, replica(at(9, 250), 90), false, refused, Refusal::not_owner},
      {"nothing of it", SourceView{}, replica(at(9, 250), 90), false, refused, Refusal::not_owner},
      {"nothing of it, for a pull", SourceView{}, replica(at(9, 250), 90), true, refused, Refusal::not_owner},
      {"a pull from a follower", follower, as(replica(at(9, 210), 90), [](FollowRow& r) { r.generation = Generation{12}; }), true, log},
      {"a pull from a follower that has no more", follower, as(replica(at(9, 250), 90), [](FollowRow& r) { r.generation = Generation{12}; }), true, log},
      {"a pull from a follower that has less", follower, as(replica(at(9, 260), 90), [](FollowRow& r) { r.generation = Generation{12}; }), true, refused, Refusal::nothing_to_pull},
      {"a pull from below the floor, same content", follower, replica(at(7, 120), 70, true), true, refused, Refusal::nothing_to_pull},
      {"a pull from off the lineage", follower, replica(at(8, 160), 80), true, refused, Refusal::nothing_to_pull},
      {"a pull from a copy that is not whole", with(follower, [](SourceView& v) { v.copying = true; }), replica(at(9, 210), 90), true, refused, Refusal::nothing_to_pull},
      {"a pull from the owner that was", source(), as(replica(at(9, 210), 90), [](FollowRow& r) { r.generation = Generation{12}; }), true, refused, Refusal::older_generation},
  };
}

TEST(Reconcile, Table) {
  for (const Case& one : table()) {
    const FollowDecision decision = reconcile(one.source, one.replica, one.pull);
    EXPECT_EQ(name(decision.how), name(one.how)) << one.story << ": " << decision.reason;
    EXPECT_EQ(name(decision.refusal), name(one.refusal)) << one.story;
    EXPECT_EQ(decision.reason.empty(), decision.how == FollowHow::log) << one.story;  // an operator asks why
  }
}

}  // namespace
}  // namespace zaris::replication
