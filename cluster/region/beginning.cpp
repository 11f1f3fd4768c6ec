#include "cluster/region/beginning.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace zaris::region {

Beginning::Beginning(KeyNames keys, std::string prefix, Options options) : keys_(std::move(keys)), prefix_(std::move(prefix)), options_(std::move(options)) {}

etcd::TxnRequest Beginning::request() const {
  etcd::TxnRequest request;
  request.guards = {etcd::Compare::absent(keys_.settings())};
  if (writes_) {
    request.then = {etcd::Put{keys_.settings(), encode(options_.ours), {}}};
  } else {
    etcd::RangeRequest members;
    members.keys = etcd::Keys::under(keys_.members());
    members.limit = 1;
    request.then = {members};
  }
  etcd::RangeRequest read;
  read.keys = etcd::Keys::one(keys_.settings());
  read.limit = 1;
  request.otherwise = {read};
  return request;
}

Beginning::Next Beginning::on_answer(const etcd::TxnAnswer& answer, const std::map<std::string, ClusterId>& told, MonoMicros now) {
  if (answer.ok() && writes_) {
    settings_ = options_.ours;
    return Next::created;
  }
  writes_ = false;                       // whatever came, others are asked once more before another attempt
  if (answer.ok()) return none(!answer.answers.empty() && !answer.answers.front().rows.empty(), told, now);
  if (answer.outcome == etcd::Outcome::compare_failed && !answer.answers.empty() && !answer.answers.front().rows.empty()) {
    auto row = decode_settings(answer.answers.front().rows.front().value);
    if (!row) {
      trouble_ = row.error();
      return Next::refused;
    }
    settings_ = std::move(*row);
    return Next::joined;
  }
  trouble_ = answer.error;
  if (answer.outcome == etcd::Outcome::unauthorized || answer.outcome == etcd::Outcome::refused) return Next::refused;
  trouble_.hint = "a node that has not joined its region cannot begin without etcd; check etcd.endpoints";
  return Next::wait;
}

Beginning::Next Beginning::none(bool members, const std::map<std::string, ClusterId>& told, MonoMicros now) {
  if (none_since_ == 0) none_since_ = now;
  const auto knows = std::ranges::find_if(told, [](const auto& one) { return one.second != ClusterId{}; });
  // Whoever registers has read the settings before: members without any are of a region whose etcd was emptied.
  if (members || knows != told.end()) {
    const std::string who = knows != told.end() ? fmt::format("node {} runs as part of region {}, of which etcd has no settings under {}", knows->first, options_.ours.region, prefix_)
                                                : fmt::format("etcd has members of region {} under {} and not its settings", options_.ours.region, prefix_);
    trouble_ = Error{"etcd_emptied", who + ": it was emptied while they ran, or is another one",
                     "restore etcd from a backup, or point etcd.endpoints at the right one; or, if what the nodes hold may go or is in another region, stop all of them and begin anew"};
    return Next::wait;
  }
  trouble_ = Error{"region_not_begun", "etcd holds no region under " + prefix_ + " and not every other node has said that it knows of none", {}};
  const bool all = std::ranges::all_of(options_.others, [&](const std::string& name) { return told.contains(name); });
  if (!all && now - none_since_ < options_.silence_us) return Next::wait;
  writes_ = true;
  return Next::ask;
}

}  // namespace zaris::region
