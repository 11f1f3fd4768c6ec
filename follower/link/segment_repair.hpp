// What one segment's repair has in hand: which marks, which keys, what the target holds of them, what the source has said. Design page follower,
// "Repair". Plain state; link_repair.cpp decides.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/record/lineage.hpp"
#include "cluster/record/mark.hpp"
#include "follower/link/link.hpp"
#include "follower/link/piece.hpp"

namespace zaris::follower {

struct SegmentRepair {
  // A longer list is not held in memory: its segment is put right by ranges.
  static constexpr std::size_t keys_most = 65'536, list_bytes_most = 16u << 20;
  static constexpr std::size_t fetch_keys_most = 4096, fetch_bytes_most = 256u << 10;  // of one FetchKeys
  static constexpr std::size_t keep_bytes = 1u << 20;                                  // answered, and then kept in the conflict log at once

  // A mark of which a position did not survive.
  struct Part {
    std::size_t lane = 0;
    NamedPosition surviving;
  };
  std::vector<Part> parts;                 // the first one is at work
  Lineage lineage;                         // by which that was decided

  std::uint64_t request = 0;               // what is waited for: a page of the list, an answer to FetchKeys; 0: neither
  MonoMicros asked = 0;

  // Of the part at work.
  MarkToken token;                         // of its mark when the list was begun
  std::map<SlotKey, std::string> named;    // what the target holds there, the newest record of each key
  std::size_t named_bytes = 0;
  std::vector<SlotKey> keys;               // of `named`, once the list is whole
  std::size_t fetched = 0;                 // of `keys`: answered
  std::size_t question = 0, asked_to = 0;  // of `keys`: where the question that is waited for begins and ends

  // What was answered, on its way through the conflict log: not applied before it lies there.
  struct Answered {
    std::vector<Piece> pieces;
    std::vector<ConflictRecord> conflicts;
    std::size_t bytes = 0;
  };
  Answered answered, keeping;
  std::uint64_t keep_id = 0;               // 0: nothing is being kept
  bool last_sent = false;                  // the final batch is queued or on its way
};

}  // namespace zaris::follower
