// How much memory a decoder holds at once: replaces operator new of the program that it is linked into. One thread.
#pragma once
#include <cstddef>

namespace zaris::fuzz {

class PeakAllocation {
 public:
  PeakAllocation();                          // counts from here; one at a time
  ~PeakAllocation();
  PeakAllocation(const PeakAllocation&) = delete;
  PeakAllocation& operator=(const PeakAllocation&) = delete;
  // Aborts when more than `base` bytes and `factor` for each byte of input were held at one moment.
  void check(std::size_t input_bytes, std::size_t base, std::size_t factor) const;
};

}  // namespace zaris::fuzz
