#include "cluster/cli/suggest.hpp"

#include <algorithm>

namespace zaris::cli {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t k = 0; k <= b.size(); ++k) d[0][k] = k;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t k = 1; k <= b.size(); ++k) {
      d[i][k] = std::min({d[i - 1][k] + 1, d[i][k - 1] + 1, d[i - 1][k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1)});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) d[i][k] = std::min(d[i][k], d[i - 2][k - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string nearest(std::string_view given, const std::vector<std::string>& known) {
  if (given.empty() || given.size() > 64) return {};
  std::string best;
  std::size_t least = std::max<std::size_t>(1, given.size() / 3) + 1;
  for (const std::string& one : known) {
    std::size_t distance = edit_distance(given, one);
    if (given.size() >= 3 && one.starts_with(given)) distance = std::min<std::size_t>(distance, 1);
    if (distance < least) {
      least = distance;
      best = one;
    }
  }
  return best;
}

}  // namespace zaris::cli
