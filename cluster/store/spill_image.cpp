#include "cluster/store/spill_image.hpp"

#include <cstring>
#include <fmt/format.h>
#include <xxhash.h>

namespace zaris::store {
namespace {

constexpr std::uint64_t magic = 0x31304c4c4950535aull;  // "ZSPILL01"

struct Head {
  std::uint64_t hash = 0;  // XXH3-64, seed 0, of all that follows
  std::uint64_t magic = 0;
  std::uint64_t first = 0;
  std::uint64_t bytes_before = 0;
  std::uint64_t last_commit_us = 0;
  std::uint32_t generation = 0;
  std::uint32_t count = 0, used = 0, tombstones = 0;
  std::uint32_t segment = 0, unused = 0;
};
static_assert(sizeof(Head) % alignof(LogIndex) == 0 && std::is_trivially_copyable_v<LogIndex>);

std::uint64_t hash_of_image(const std::string& image) { return XXH3_64bits(image.data() + sizeof(Head::hash), image.size() - sizeof(Head::hash)); }

// The image lives as long as the chunk that points into it.
struct Loaded {
  std::string image;
  LogChunk chunk;
};

}  // namespace

std::string spill_image(SegmentId segment, const LogChunk& chunk) {
  Head head;
  head.magic = magic;
  head.first = chunk.first.value();
  head.bytes_before = chunk.bytes_before;
  head.last_commit_us = chunk.last_commit_us.load(std::memory_order_relaxed);
  head.generation = chunk.generation.value();
  head.count = chunk.count();
  head.used = chunk.used;
  head.tombstones = chunk.tombstones;
  head.segment = segment.value();
  std::string image;
  image.reserve(sizeof head + head.count * sizeof(LogIndex) + head.used);
  image.append(reinterpret_cast<const char*>(&head), sizeof head);
  image.append(reinterpret_cast<const char*>(chunk.index), head.count * sizeof(LogIndex));
  image.append(chunk.bytes, head.used);
  head.hash = hash_of_image(image);
  std::memcpy(image.data(), &head.hash, sizeof head.hash);
  return image;
}

Result<std::shared_ptr<const LogChunk>> chunk_from_image(std::string image, SegmentId segment, const SpilledChunk& expected) {
  const auto damaged = [&](std::string_view what) {
    return failure("spill_damaged", fmt::format("what lies on the disk for revisions {} to {} of segment {} {}", expected.first.value(), expected.last().value(),
                                                segment.value(), what), "the log begins behind it now; look at the disk under log.spill_path");
  };
  Head head;
  if (image.size() < sizeof head) return damaged("is cut off");
  std::memcpy(&head, image.data(), sizeof head);
  if (head.hash != hash_of_image(image) || head.magic != magic) return damaged("is not what was written");
  if (head.segment != segment.value() || head.first != expected.first.value() || head.count != expected.count || head.generation != expected.generation.value() ||
      image.size() != sizeof head + head.count * sizeof(LogIndex) + head.used) {
    return damaged("is another chunk");
  }
  auto loaded = std::make_shared<Loaded>();
  loaded->image = std::move(image);
  LogChunk& chunk = loaded->chunk;
  chunk.used = head.used;
  chunk.published.store(head.count, std::memory_order_relaxed);
  chunk.last_commit_us.store(head.last_commit_us, std::memory_order_relaxed);
  chunk.index = reinterpret_cast<LogIndex*>(loaded->image.data() + sizeof head);
  chunk.bytes = loaded->image.data() + sizeof head + head.count * sizeof(LogIndex);
  chunk.bytes_capacity = head.used;
  chunk.index_capacity = head.count;
  chunk.bytes_before = head.bytes_before;
  chunk.generation = Generation{head.generation};
  chunk.tombstones = head.tombstones;
  chunk.first = Revision{head.first};
  chunk.footprint_bytes = sizeof(Loaded) + loaded->image.size();
  return std::shared_ptr<const LogChunk>(loaded, &chunk);
}

}  // namespace zaris::store
