// One well-filled frame of each message between nodes: what docs/formats/region.md shows and mutations begin from.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zaris::replication {

struct Example {
  std::string name;  // the name of the hex block in docs/formats/region.md
  std::string bytes;
};
[[nodiscard]] std::vector<Example> examples();

// Parses one frame, decodes its body as what its opcode says, and encodes what came out. Empty: refused.
[[nodiscard]] std::optional<std::string> trip(std::string_view bytes);

}  // namespace zaris::replication
