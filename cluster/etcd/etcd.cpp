#include "cluster/etcd/etcd.hpp"

#include <fmt/format.h>

namespace zaris::etcd {

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok: return "ok";
    case Outcome::compare_failed: return "compare_failed";
    case Outcome::unreachable: return "unreachable";
    case Outcome::unknown: return "unknown";
    case Outcome::compacted: return "compacted";
    case Outcome::lease_gone: return "lease_gone";
    case Outcome::unauthorized: return "unauthorized";
    case Outcome::no_space: return "no_space";
    case Outcome::refused: return "refused";
  }
  return "?";
}

namespace {

Error no_key() { return Error{"etcd_refused", "a request to etcd names no key", {}}; }

struct Measure {
  std::size_t bytes = 0;
  Error wrong;

  void operator()(const Put& put) {
    bytes += put.key.size() + put.value.size();
    if (put.key.empty()) wrong = no_key();
  }
  void operator()(const Delete& removal) {
    bytes += removal.keys.key.size();
    if (removal.keys.key.empty() && !removal.keys.prefix) wrong = no_key();
  }
  void operator()(const RangeRequest& read) {
    bytes += read.keys.key.size() + read.after.size();
    if (Error error = objection(read); !error.code.empty()) wrong = std::move(error);
  }
};

}  // namespace

Error objection(const RangeRequest& request) {
  if (request.keys.key.empty() && !request.keys.prefix) return no_key();
  if (request.limit == 0) return Error{"etcd_refused", "a page of no rows was asked for", {}};
  return {};
}

Error objection(const TxnRequest& request) {
  for (const std::size_t count : {request.guards.size(), request.then.size(), request.otherwise.size()}) {
    if (count > operations_max)
      return Error{"etcd_request_too_large", fmt::format("a transaction of {} operations; etcd takes {}", count, operations_max), {}};
  }
  Measure measure;
  for (const Compare& guard : request.guards) {
    measure.bytes += guard.key.size() + guard.value.size();
    if (guard.key.empty()) return no_key();
  }
  for (const auto* list : {&request.then, &request.otherwise})
    for (const Operation& operation : *list) std::visit(measure, operation);
  if (!measure.wrong.code.empty()) return measure.wrong;
  if (measure.bytes > request_bytes_max)
    return Error{"etcd_request_too_large", fmt::format("a transaction of {} bytes; etcd takes {}", measure.bytes, request_bytes_max), {}};
  return {};
}

}  // namespace zaris::etcd
