// Who the region is that a starting node joins: what the first of its nodes has written into etcd, or, if nobody has, what this one
// writes. An etcd that was emptied looks like one that never held the region; to begin there would make a second region under the
// names of the first, which answers "there is none" for keys that stand. So a node begins a region only when nothing speaks for an
// older one: no node is registered, and each other node of the roster has said that it knows of none, or stayed silent for so long
// that one which runs and is reached would have spoken. A plain decision: no clock, no socket. Design page cluster, "Formation".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/etcd/etcd.hpp"
#include "cluster/region/rows.hpp"

namespace zaris::region {

class Beginning {
 public:
  enum class Next : std::uint8_t { ask, wait, joined, created, refused };
  struct Options {
    SettingsRow ours;                    // what is written when there is nothing
    std::vector<std::string> others;     // the roster without this node
    MonoMicros silence_us = 5'000'000;   // from the first answer without settings on; longer than a lease and the way to another one
  };
  Beginning(KeyNames keys, std::string prefix, Options options);

  // What etcd is to be asked next.
  [[nodiscard]] etcd::TxnRequest request() const;
  // `told`: the clusters that other nodes say they belong to; 0: one that does not know yet.
  Next on_answer(const etcd::TxnAnswer& answer, const std::map<std::string, ClusterId>& told, MonoMicros now);

  // joined, created.
  [[nodiscard]] const SettingsRow& settings() const { return settings_; }
  // Why it waits or is refused. Codes: `etcd_emptied`, and those of etcd's answers.
  [[nodiscard]] const Error& trouble() const { return trouble_; }

 private:
  [[nodiscard]] Next none(bool members, const std::map<std::string, ClusterId>& told, MonoMicros now);

  const KeyNames keys_;
  const std::string prefix_;
  const Options options_;
  SettingsRow settings_;
  Error trouble_;
  bool writes_ = false;
  MonoMicros none_since_ = 0;            // 0: etcd was not seen without settings
};

}  // namespace zaris::region
