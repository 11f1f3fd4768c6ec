// One well-filled frame of each opcode and direction: what docs/formats/native.md shows and mutations begin from.
#pragma once
#include <string>
#include <vector>

#include "trip.hpp"

namespace zaris::protocol {

struct Example {
  std::string name;  // "put", "put-answer", …: the name of the hex block in docs/formats/native.md
  Side side;
  std::string bytes;
};
[[nodiscard]] std::vector<Example> examples();

}  // namespace zaris::protocol
