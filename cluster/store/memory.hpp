// Where the store's blocks come from: mimalloc, or the sanitizer's allocator so that it sees every mistake.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZARIS_STORE_PLAIN_MALLOC 1
#else
#include <mimalloc.h>
#endif

namespace zaris::store {

// 16-byte aligned. Throws std::bad_alloc.
inline void* allocate(std::size_t bytes) {
#ifdef ZARIS_STORE_PLAIN_MALLOC
  void* p = std::malloc(bytes);
#else
  void* p = mi_malloc(bytes);
#endif
  if (p == nullptr) [[unlikely]] throw std::bad_alloc();
  return p;
}
inline void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
#ifdef ZARIS_STORE_PLAIN_MALLOC
  void* p = std::aligned_alloc(alignment, bytes);
#else
  void* p = mi_malloc_aligned(bytes, alignment);
#endif
  if (p == nullptr) [[unlikely]] throw std::bad_alloc();
  return p;
}
inline void release(void* p) {
#ifdef ZARIS_STORE_PLAIN_MALLOC
  std::free(p);
#else
  mi_free(p);
#endif
}
// mimalloc's size classes: multiples of 8 up to 64, then four per power of two.
inline unsigned size_class(std::size_t bytes) {
  std::size_t words = (bytes + 7) / 8;
  if (words <= 8) return static_cast<unsigned>(words);
  --words;
  const auto top = static_cast<unsigned>(63 - __builtin_clzll(words));
  return (top << 2) + static_cast<unsigned>((words >> (top - 2)) & 3) - 3;
}
// What a block of so many bytes really takes.
inline std::size_t footprint(std::size_t bytes) {
  const std::size_t words = (bytes + 7) / 8;
  if (words <= 8) return words * 8;
  const auto top = static_cast<unsigned>(63 - __builtin_clzll(words - 1));
  const std::size_t step = std::size_t{1} << (top - 2);
  return (words + step - 1) / step * step * 8;
}

// A few blocks of each small class that this thread has just given back: what it takes next, without the allocator and
// still in its cache.
class SpareBlocks {
 public:
  static constexpr std::size_t bytes_max = 4096;
  static constexpr unsigned classes = 40;
  SpareBlocks() = default;
  SpareBlocks(const SpareBlocks&) = delete;
  SpareBlocks& operator=(const SpareBlocks&) = delete;
  ~SpareBlocks() {
    for (Class& c : classes_) {
      while (c.first != nullptr) zaris::store::release(pop(c));
    }
  }
  void* take(std::size_t bytes) {
#ifndef ZARIS_STORE_PLAIN_MALLOC
    if (bytes <= bytes_max && bytes >= sizeof(void*)) {
      if (Class& c = classes_[size_class(bytes)]; c.first != nullptr) return pop(c);
    }
#endif
    return allocate(bytes);
  }
  void give([[maybe_unused]] std::size_t bytes, void* p) {
#ifndef ZARIS_STORE_PLAIN_MALLOC
    if (bytes <= bytes_max && bytes >= sizeof(void*)) {
      Class& c = classes_[size_class(bytes)];
      if (c.held + bytes <= held_max) {
        *static_cast<void**>(p) = c.first;
        c.first = p;
        c.held += bytes;
        return;
      }
    }
#endif
    zaris::store::release(p);
  }

 private:
  static constexpr std::size_t held_max = 128u << 10;  // of each class
  struct Class {
    void* first = nullptr;
    std::size_t held = 0;
  };
  static void* pop(Class& c) {
    void* p = c.first;
    c.first = *static_cast<void**>(p);
    if (c.first == nullptr) c.held = 0;
    return p;
  }
  Class classes_[classes];
};
inline thread_local SpareBlocks spare_blocks;

}  // namespace zaris::store
