// All rows under a prefix as of one revision, page by page, within bounds.
#pragma once
#include "cluster/etcd/etcd.hpp"

namespace zaris::etcd {

struct ListLimits {
  std::uint32_t page = 256;                // rows asked for at once; halved when such a page is too large
  std::size_t rows_max = 100'000;
  std::size_t bytes_max = 64u << 20;       // keys and values
};

// Like one range without a limit: the answer's revision is that of the newest change it can show, so that a watch from
// revision + 1 goes on where it ends. A list that was overtaken by a compaction begins again, three times at most. Over the
// limits: refused (`etcd_answer_too_large`). `timeout` is that of each page. `etcd` must outlive it, or be what drops it.
void list(Etcd& etcd, std::string prefix, ListLimits limits, Timeout timeout, std::function<void(RangeAnswer)> handler);

}  // namespace zaris::etcd
