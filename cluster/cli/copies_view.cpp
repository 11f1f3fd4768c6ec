#include "cluster/cli/copies_view.hpp"

#include <set>

namespace zaris::cli {

using protocol::CopyRow;
using State = CopyPair::State;

void CopiesView::take(const std::map<std::string, std::vector<CopyRow>>& by_node) {
  struct Held {
    const std::string* node;
    const CopyRow* row;
  };
  std::map<std::uint16_t, std::vector<Held>> by_segment;
  for (const auto& [node, rows] : by_node) {
    for (const CopyRow& row : rows) by_segment[row.segment.value()].push_back({&node, &row});
  }
  for (const auto& [segment, held] : by_segment) {
    // An owner that does not know yet that another has followed it is a copy like others.
    const Held* owner = nullptr;
    for (const Held& one : held) {
      if (one.row->role == CopyRow::Role::owner && (owner == nullptr || one.row->at > owner->row->at)) owner = &one;
    }
    if (owner != nullptr) {
      keys_[segment] = owner->row->count;
      pairs_.erase({segment, *owner->node});
    }
    for (const Held& one : held) {
      if (&one == owner || one.row->role == CopyRow::Role::none) continue;
      auto [at, fresh] = pairs_.try_emplace({segment, *one.node});
      CopyPair& pair = at->second;
      if (!fresh && (pair.state == State::equal || pair.state == State::differs)) continue;
      pair = {one.row->segment, owner != nullptr ? *owner->node : "", *one.node, owner != nullptr ? *owner->row : CopyRow{}, *one.row, State::equal};
      if (owner == nullptr) pair.state = State::no_owner;
      else if (one.row->copying) pair.state = State::copying;
      else if (one.row->at != owner->row->at) pair.state = State::elsewhere;
      else if (one.row->count != owner->row->count || one.row->digest != owner->row->digest) pair.state = State::differs;
    }
  }
}

std::vector<CopyPair> CopiesView::in(State state) const {
  std::vector<CopyPair> out;
  for (const auto& [key, pair] : pairs_) {
    if (pair.state == state) out.push_back(pair);
  }
  return out;
}

std::vector<SegmentId> CopiesView::open() const {
  std::set<SegmentId> out;
  for (const auto& [key, pair] : pairs_) {
    if (pair.state != State::equal && pair.state != State::differs) out.insert(pair.segment);
  }
  return {out.begin(), out.end()};
}

std::uint64_t CopiesView::keys() const {
  std::uint64_t sum = 0;
  for (const auto& [segment, keys] : keys_) sum += keys;
  return sum;
}

const char* word_of(State state) {
  switch (state) {
    case State::equal: return "equal";
    case State::differs: return "differs";
    case State::elsewhere: return "behind";
    case State::copying: return "copying";
    case State::no_owner: break;
  }
  return "no owner";
}

}  // namespace zaris::cli
