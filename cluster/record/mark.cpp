#include "cluster/record/mark.hpp"

namespace zaris {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::bootstrap: return "bootstrap";
    case Phase::stream: return "stream";
    case Phase::repair: return "repair";
  }
  return "unknown";
}

}  // namespace zaris
