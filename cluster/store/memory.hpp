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
inline void release(void* p) {
#ifdef ZARIS_STORE_PLAIN_MALLOC
  std::free(p);
#else
  mi_free(p);
#endif
}
// What a block of so many bytes really takes.
inline std::size_t footprint(std::size_t bytes) {
#ifdef ZARIS_STORE_PLAIN_MALLOC
  return (bytes + 15) & ~std::size_t{15};
#else
  return mi_good_size(bytes);
#endif
}

}  // namespace zaris::store
