#include "peak.hpp"

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

bool counting = false;
std::ptrdiff_t held = 0, most = 0;

void* take(std::size_t bytes) {
  void* at = std::malloc(bytes == 0 ? 1 : bytes);
  if (at == nullptr) std::abort();
  if (counting) {
    held += static_cast<std::ptrdiff_t>(malloc_usable_size(at));
    if (held > most) most = held;
  }
  return at;
}

void give(void* at) {
  if (counting && at != nullptr) held -= static_cast<std::ptrdiff_t>(malloc_usable_size(at));
  std::free(at);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes); }
void* operator new[](std::size_t bytes) { return take(bytes); }
void operator delete(void* at) noexcept { give(at); }
void operator delete[](void* at) noexcept { give(at); }
void operator delete(void* at, std::size_t) noexcept { give(at); }
void operator delete[](void* at, std::size_t) noexcept { give(at); }

namespace zaris::fuzz {

PeakAllocation::PeakAllocation() {
  held = most = 0;
  counting = true;
}
PeakAllocation::~PeakAllocation() { counting = false; }

void PeakAllocation::check(std::size_t input_bytes, std::size_t base, std::size_t factor) const {
  if (most <= static_cast<std::ptrdiff_t>(base + factor * input_bytes)) return;
  std::fprintf(stderr, "%td bytes were held for %zu bytes of input\n", most, input_bytes);
  std::abort();
}

}  // namespace zaris::fuzz
