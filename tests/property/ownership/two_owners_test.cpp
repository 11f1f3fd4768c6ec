// Can two nodes acknowledge for one partition at the same instant? An exhaustive search, within bounds, over the very functions
// that decide it: A owns, B and C are replicas, D is an empty node, the coordinator and the leader step together. In each tick each
// process takes one step, in any order; links change, A pauses and answers to A are late as often as the bounds allow. Each rule
// that matters is also left out once, and the search must then find two owners: so it can see.
#include <gtest/gtest.h>

#include <unordered_set>

#include "cluster/ownership/authority.hpp"
#include "cluster/ownership/failover.hpp"

namespace zaris::ownership {
namespace {

constexpr int lease_ticks = 4, grant_ticks = 2, evict_ticks = 6;
constexpr BootMicros tick = boot_second;

enum class Flaw {
  none,
  no_guard,              // the promoting transaction does not ask for the lease key of the old owner
  counted_from_answer,   // a lease counts from when its answer came in
  grant_from_answer,     // a grant too
  new_lease_believed,    // a lease taken anew counts for a term that was not read again
  no_union,              // a change of the set counts before its outcome is known
  no_grant_wait,         // a promoted replica serves at once
  stranger_promoted,     // somebody outside the set is promoted
  evicted_by_silence,    // the eviction countdown runs from silence, not from the lease key's end
};

enum class Story { steady, joins, leaves, nobody_in_step };

struct Bounds {
  int replicas = 1;
  int ticks = 12;
  int cuts = 2;
  int pauses = 0;
  int delays = 0;
  Story story = Story::steady;
};

const Member a{"a", Incarnation{1}}, replica[] = {{"b", Incarnation{2}}, {"c", Incarnation{3}}}, d{"d", Incarnation{4}};
enum Link { ae, ab, ac, be, ce, links };
const char* const link_names[] = {"A-coordinator", "A-B", "A-C", "B-coordinator", "C-coordinator"};

Members initial_set(const Bounds& bounds) {
  Members set(replica, replica + bounds.replicas);
  if (bounds.story == Story::joins) set.erase(set.begin());
  if (bounds.story == Story::nobody_in_step) set.clear();
  return set;
}
Members wanted_set(const Bounds& bounds) {
  Members set(replica, replica + bounds.replicas);
  if (bounds.story == Story::leaves) set.erase(set.begin());
  return set;
}

struct World {
  int t = 0;
  unsigned stepped = 0;
  bool up[links] = {true, true, true, true, true};
  int cuts, pauses, delays;
  // The coordinator. owner: -1 A, 0 and 1 the replicas, 2 D.
  int lease_end = lease_ticks, lease_id = 1, owner = -1;
  Members set;
  bool set_changed = false;
  // The leader. It never hears A: safety must not hang on hearing.
  int no_lease_since = -1;
  unsigned fenced = 0;
  // A, with what is under way to it: when it was sent, -1 nothing.
  Lease lease;
  OwnerTerm term;
  bool over = false;
  int renewal = -1, asked[2] = {-1, -1}, granted[2] = {-1, -1}, confirmed_id = 1;
  bool change_under_way = false;
  // The others.
  Granter granter[2];
  bool knows[3] = {false, false, false};

  World(const Bounds& bounds)
      : cuts(bounds.cuts), pauses(bounds.pauses), delays(bounds.delays), set(initial_set(bounds)),
        term(Generation{1}, static_cast<std::uint32_t>(bounds.replicas + 1), {grant_ticks * tick, evict_ticks * tick, EvictRf1::after}, 0, set),
        granter{Granter(-100 * tick, grant_ticks * tick), Granter(-100 * tick, grant_ticks * tick)} {
    lease.taken(LeaseId{1}, 0, lease_ticks * tick);
    term.confirmed(LeaseId{1});
    for (Granter& g : granter) g.learn(Generation{1});
  }

  BootMicros now() const { return t * tick; }
  bool lease_exists() const { return t < lease_end; }
  std::string key() const {
    std::string out;
    const auto put = [&](std::int64_t v) { out.push_back(static_cast<char>(v)); };
    for (const int v : {t, static_cast<int>(stepped), cuts, pauses, delays, lease_end, lease_id, owner, no_lease_since, static_cast<int>(fenced), renewal, asked[0], asked[1],
                        granted[0], granted[1], confirmed_id})
      put(v);
    unsigned bits = 0;
    for (const bool b : up) bits = bits << 1 | b;
    put(bits);
    bits = set.size() << 3 | set_changed << 2 | over << 1 | change_under_way;
    for (const bool b : knows) bits = bits << 1 | b;
    put(bits);
    put(lease.until() / 10'000 % 251);
    put(term.changing() << 3 | term.counted().size());
    for (const Granter& g : granter) {
      put(g.highest().value());
      put(g.may_serve_from() / 10'000 % 251);
    }
    return out;
  }
};

class Search {
 public:
  Search(Bounds bounds, Flaw flaw) : bounds_(bounds), flaw_(flaw) {}

  // The story of two owners; empty: there is none.
  std::vector<std::string> run() {
    explore(World(bounds_), {});
    return found_ ? trace_ : std::vector<std::string>{};
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t promotions() const { return promotions_; }

 private:
  using Next = std::vector<std::pair<World, std::string>>;

  void explore(const World& w, const std::string& how) {
    if (found_ || !seen_.insert(w.key()).second) return;
    trace_.push_back("t=" + std::to_string(w.t) + " " + how);
    if (two_owners(w)) {
      found_ = true;
      return;
    }
    if (w.t < bounds_.ticks && !w.over) {  // an owner that knows that it is over serves never again
      if (w.stepped == 0 && w.cuts > 0) {
        for (int l = 0; l < links && !found_; ++l) {
          if (!used(l)) continue;
          World n = w;
          n.up[l] = !n.up[l];
          --n.cuts;
          explore(n, std::string(link_names[l]) + (n.up[l] ? " healed" : " cut"));
        }
      }
      const int processes = 2 + std::max(1, bounds_.replicas);
      for (int p = 0; p < processes && !found_; ++p) {
        if ((w.stepped >> p & 1) != 0) continue;
        World base = w;
        base.stepped |= 1u << p;
        Next next = p == 0 ? step_a(base) : p == 1 ? step_leader(base) : bounds_.replicas == 0 ? step_d(base) : step_replica(base, p - 2);
        for (auto& [n, what] : next) {
          if (n.stepped == (1u << processes) - 1) {
            n.stepped = 0;
            ++n.t;
          }
          explore(n, what);
          if (found_) return;
        }
      }
    }
    if (!found_) trace_.pop_back();
  }

  bool used(int link) const {
    return link == ae || ((link == ab || link == be) && bounds_.replicas >= 1) || ((link == ac || link == ce) && bounds_.replicas >= 2);
  }

  bool serves(const World& w, int r) const {
    if (!w.knows[r]) return false;
    return r == 2 || flaw_ == Flaw::no_grant_wait || w.now() >= w.granter[r].may_serve_from();
  }
  bool two_owners(const World& w) const {
    if (!w.term.serving(w.lease).at(w.now())) return false;
    return serves(w, 0) || serves(w, 1) || serves(w, 2);
  }

  void lease_answer(World& w, int sent) const {
    w.lease.renewed(LeaseId{static_cast<std::uint64_t>(w.lease_id)}, (flaw_ == Flaw::counted_from_answer ? w.t : sent) * tick, lease_ticks * tick);
  }
  void grant_answer(World& w, int r, int sent) const {
    const int from = flaw_ == Flaw::grant_from_answer ? w.t : sent;
    w.term.granted(replica[r], from * tick, no_end);
    w.granted[r] = std::max(w.granted[r], from);
  }

  Next step_a(const World& w) {
    Next out;
    if (w.pauses > 0) {
      World n = w;
      --n.pauses;
      out.emplace_back(n, "A pauses");
    }
    Next now;
    const bool waiting = w.renewal >= 0 || w.asked[0] >= 0 || w.asked[1] >= 0 || w.change_under_way;
    if (waiting) {
      World n = w;
      if (n.renewal >= 0) lease_answer(n, n.renewal);
      n.renewal = -1;
      for (int r = 0; r < 2; ++r) {
        if (n.asked[r] >= 0) grant_answer(n, r, n.asked[r]);
        n.asked[r] = -1;
      }
      if (n.change_under_way) n.term.change_ended(wanted_set(bounds_));
      n.change_under_way = false;
      now.emplace_back(n, "A hears late answers, ");
    }
    now.emplace_back(w, "A ");
    Next told;
    for (auto& [n, what] : now) to_coordinator(n, what, told);
    for (auto& [n, what] : told) to_replicas(n, what, out);
    return out;
  }

  void to_coordinator(const World& w, const std::string& what, Next& out) {
    if (!w.up[ae]) {
      out.emplace_back(w, what);
      return;
    }
    Next renewed;
    World n = w;
    if (w.lease_exists()) {
      n.lease_end = w.t + lease_ticks;
      if (w.delays > 0 && w.renewal < 0) {
        World late = n;
        late.renewal = w.t;
        --late.delays;
        renewed.emplace_back(late, what + "renews (answer late) ");
      }
      lease_answer(n, w.t);
      renewed.emplace_back(n, what + "renews ");
    } else {
      n.lease.gone(LeaseId{static_cast<std::uint64_t>(w.lease_id)});
      ++n.lease_id;
      n.renewal = -1;
      n.lease_end = w.t + lease_ticks;
      n.lease.taken(LeaseId{static_cast<std::uint64_t>(n.lease_id)}, w.t * tick, lease_ticks * tick);
      if (flaw_ == Flaw::new_lease_believed) confirm(n);
      renewed.emplace_back(n, what + "takes a new lease ");
    }
    for (auto& [r, how] : renewed) {
      if (r.delays > 0) {
        World blind = r;
        --blind.delays;
        out.emplace_back(blind, how + "(reads nothing) ");
      }
      if (r.owner != -1) {
        r.term.superseded(Generation{2});
        r.over = true;
        out.emplace_back(r, how + "and reads that it is over ");
        continue;
      }
      confirm(r);
      if ((bounds_.story == Story::joins || bounds_.story == Story::leaves) && !r.set_changed && !r.term.changing() && !r.change_under_way) {
        World c = r;
        c.set = wanted_set(bounds_);
        c.set_changed = true;
        if (flaw_ != Flaw::no_union) c.term.change_begins(wanted_set(bounds_));
        {
          World late = c;
          late.change_under_way = true;
          // Without the union a leaving member is forgotten as the request is sent, a joining one remembered as the answer comes.
          if (flaw_ == Flaw::no_union && bounds_.story == Story::leaves) late.term.change_ended(wanted_set(bounds_));
          out.emplace_back(late, how + "changes the set (answer late) ");
        }
        c.term.change_ended(wanted_set(bounds_));
        out.emplace_back(c, how + "changes the set ");
      }
      out.emplace_back(r, how);
    }
  }

  static void confirm(World& w) {
    w.term.confirmed(LeaseId{static_cast<std::uint64_t>(w.lease_id)});
    w.confirmed_id = w.lease_id;
  }

  void to_replicas(const World& w, const std::string& what, Next& out) {
    World n = w, late = w;
    bool any = false;
    for (int r = 0; r < bounds_.replicas; ++r) {
      if (!w.up[ab + r]) continue;
      const GrantAnswer answer = n.granter[r].ask(Generation{1}, w.now());
      late.granter[r] = n.granter[r];
      if (!answer.granted) {
        n.term.superseded(answer.highest);
        n.over = true;
        continue;
      }
      grant_answer(n, r, w.t);
      if (late.asked[r] < 0) late.asked[r] = w.t;
      any = true;
    }
    out.emplace_back(n, what + "asks for grants");
    if (any && w.delays > 0) {
      --late.delays;
      out.emplace_back(late, what + "asks for grants (answers late)");
    }
  }

  Next step_leader(const World& w) {
    World n = w;
    n.no_lease_since = w.lease_exists() ? -1 : w.no_lease_since < 0 ? w.t : w.no_lease_since;
    Next out{{n, "leader looks"}};
    if (w.owner != -1) return out;
    if (bounds_.replicas == 0) {
      const int since = flaw_ == Flaw::evicted_by_silence ? 0 : n.no_lease_since;
      if (since >= 0 && !w.lease_exists() && w.now() - since * tick >= lengthened(evict_ticks * tick)) {
        n.owner = 2;
        ++promotions_;
        out.emplace_back(n, "leader gives the partition to D");
      }
      return out;
    }
    for (int r = 0; r < bounds_.replicas; ++r) {
      if (!w.up[be + r]) continue;
      World f = n;
      f.granter[r].learn(Generation{2});
      f.fenced |= 1u << r;
      if (f.fenced != n.fenced) out.emplace_back(f, "leader fences " + replica[r].name);
    }
    if (n.fenced == 0) return out;
    for (int best = 0; best < bounds_.replicas; ++best) {
      Election e;
      e.fence = Generation{2};
      e.segments = 1;
      e.old_owner = a;
      e.old_lease_gone = flaw_ == Flaw::no_guard || !w.lease_exists();
      e.set = {Generation{1}, w.set};
      if (flaw_ == Flaw::stranger_promoted) e.set.members.assign(replica, replica + bounds_.replicas);
      e.mode = FailoverMode::available;
      e.replication_factor = static_cast<std::uint32_t>(bounds_.replicas + 1);
      e.fenced_at = -100 * tick;  // the leader waits for nothing: safety must not hang on it
      for (int r = 0; r < bounds_.replicas; ++r) {
        if ((n.fenced >> r & 1) != 0) e.answers.push_back({replica[r], e.fence, Generation{1}, {{Generation{1}, Revision{r == best ? 9u : 8u}}}});
      }
      const Choice choice = choose(e, {}, w.now());
      if (choice.kind != Choice::Kind::promote) continue;
      World p = n;
      p.owner = choice.chosen == replica[0] ? 0 : 1;
      p.set.clear();
      ++promotions_;
      out.emplace_back(p, "leader promotes " + choice.chosen.name);
    }
    return out;
  }

  Next step_replica(const World& w, int r) {
    World n = w;
    if (w.up[be + r] && w.owner != -1) {
      n.granter[r].learn(Generation{2});
      n.knows[r] = w.owner == r;
      return {{n, replica[r].name + " reads who is owner"}};
    }
    return {{n, replica[r].name}};
  }
  Next step_d(const World& w) {
    World n = w;
    n.knows[2] = w.owner == 2;
    return {{n, "D"}};
  }

  Bounds bounds_;
  Flaw flaw_;
  std::unordered_set<std::string> seen_;
  std::vector<std::string> trace_;
  std::size_t promotions_ = 0;
  bool found_ = false;
};

std::string told(const std::vector<std::string>& trace) {
  std::string out;
  for (const std::string& line : trace) out += "  " + line + "\n";
  return out;
}

// A sanitizer makes each state ten times as dear and finds what it looks for in fewer of them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int ticks_less = 2;
#else
constexpr int ticks_less = 0;
#endif

void holds(const char* what, Bounds bounds) {
  bounds.ticks -= ticks_less;
  Search search(bounds, Flaw::none);
  const auto story = search.run();
  EXPECT_TRUE(story.empty()) << what << ": two owners\n" << told(story);
  EXPECT_GT(search.promotions(), 0u) << what << ": nobody was ever promoted, so nothing was searched";
  std::printf("%-60s %zu states, %zu promotions\n", what, search.states(), search.promotions());
}
void breaks(const char* what, Bounds bounds, Flaw flaw) {
  Search search(bounds, flaw);
  EXPECT_FALSE(search.run().empty()) << what << ": the search does not see it (" << search.states() << " states)";
}

TEST(TwoOwners, NeverWithOneReplica) {
  holds("one replica, three changes of links", {.replicas = 1, .ticks = 12, .cuts = 3});
  holds("one replica, A pauses three times", {.replicas = 1, .ticks = 12, .cuts = 2, .pauses = 3});
  holds("one replica, late answers", {.replicas = 1, .ticks = 9, .cuts = 2, .delays = 2});
}

TEST(TwoOwners, NeverWithTwoReplicas) {
  holds("two replicas", {.replicas = 2, .ticks = 8, .cuts = 2});
  holds("two replicas, one joins the set", {.replicas = 2, .ticks = 8, .cuts = 2, .story = Story::joins});
  holds("two replicas, one leaves the set", {.replicas = 2, .ticks = 8, .cuts = 2, .story = Story::leaves});
}

TEST(TwoOwners, NeverWhenOneOutsideAnEmptySetIsTaken) {
  holds("one replica, not in step, mode available", {.replicas = 1, .ticks = 12, .cuts = 3, .story = Story::nobody_in_step});
}

TEST(TwoOwners, NeverWithOneCopyThatIsEvictedAfterACountdown) {
  holds("one copy", {.replicas = 0, .ticks = 16, .cuts = 3, .pauses = 3});
  holds("one copy, late answers", {.replicas = 0, .ticks = 16, .cuts = 3, .pauses = 1, .delays = 2});
}

TEST(TwoOwners, EachRuleIsNeeded) {
  breaks("without the guard", {.replicas = 1, .cuts = 2}, Flaw::no_guard);
  breaks("a lease counted from its answer", {.replicas = 1, .cuts = 2, .pauses = 3, .delays = 1}, Flaw::counted_from_answer);
  breaks("a grant counted from its answer", {.replicas = 1, .cuts = 2, .pauses = 1, .delays = 1}, Flaw::grant_from_answer);
  breaks("a new lease believed", {.replicas = 1, .cuts = 2, .pauses = 3, .delays = 1}, Flaw::new_lease_believed);
  breaks("no union, one joins", {.replicas = 2, .ticks = 8, .cuts = 2, .story = Story::joins}, Flaw::no_union);
  breaks("no wait for grants", {.replicas = 1, .cuts = 3}, Flaw::no_grant_wait);
  breaks("a stranger promoted", {.replicas = 2, .ticks = 8, .cuts = 2, .story = Story::leaves}, Flaw::stranger_promoted);
  breaks("one copy, evicted by silence", {.replicas = 0, .ticks = 16, .cuts = 3}, Flaw::evicted_by_silence);
}

}  // namespace
}  // namespace zaris::ownership
