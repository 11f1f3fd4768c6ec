#include "cluster/etcd/list.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris::etcd {
namespace {

constexpr int starts_max = 4;

struct Walk : std::enable_shared_from_this<Walk> {
  explicit Walk(Etcd& of) : etcd(of) {}

  void begin() {
    ++starts;
    so_far = {};
    bytes = 0;
    request.after.clear();
    request.at = {};
    next();
  }
  void next() {
    request.limit = page;
    etcd.range(request, timeout, [self = shared_from_this()](RangeAnswer answer) { self->on_page(std::move(answer)); });
  }

  void on_page(RangeAnswer answer) {
    if (answer.error.code == "etcd_answer_too_large" && page > 1) {
      page /= 2;
      return next();
    }
    if (answer.outcome == Outcome::compacted && starts < starts_max) return begin();
    if (!answer.ok()) return handler(std::move(answer));
    if (request.at == EtcdRevision{}) request.at = so_far.revision = answer.revision;
    for (Row& row : answer.rows) {
      bytes += row.key.size() + row.value.size();
      so_far.rows.push_back(std::move(row));
    }
    if (so_far.rows.size() > limits.rows_max || bytes > limits.bytes_max) {
      so_far.outcome = Outcome::refused;
      so_far.error = Error{"etcd_answer_too_large", fmt::format("more than {} rows or {} bytes under {}", limits.rows_max, limits.bytes_max, printable(request.keys.key)), {}};
      so_far.rows.clear();
      return handler(std::move(so_far));
    }
    if (answer.more && !so_far.rows.empty()) {
      request.after = so_far.rows.back().key;
      return next();
    }
    so_far.outcome = Outcome::ok;
    handler(std::move(so_far));
  }

  Etcd& etcd;
  RangeRequest request;
  ListLimits limits;
  Timeout timeout{};
  std::function<void(RangeAnswer)> handler;
  RangeAnswer so_far;
  std::size_t bytes = 0;
  std::uint32_t page = 1;
  int starts = 0;
};

}  // namespace

void list(Etcd& etcd, std::string prefix, ListLimits limits, Timeout timeout, std::function<void(RangeAnswer)> handler) {
  auto walk = std::make_shared<Walk>(etcd);
  walk->request.keys = Keys::under(std::move(prefix));
  walk->limits = limits;
  walk->page = std::max<std::uint32_t>(1, limits.page);
  walk->timeout = timeout;
  walk->handler = std::move(handler);
  walk->begin();
}

}  // namespace zaris::etcd
