// Who may ask for what: certificate subject → key prefixes. Design page security (Identity). No I/O; immutable.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"
#include "cluster/tls/context.hpp"
#include "feed/session/source.hpp"

namespace zaris::feed {

struct AccessRule {
  std::string subject;                 // common name, or the whole subject ("CN=b,O=Example"), or a DNS or URI name of the certificate
  std::vector<std::string> prefixes;   // one empty prefix: everything
};

class AccessTable {
 public:
  // Errors (feed_access_invalid): an empty or repeated subject, a row without prefixes, a prefix over 64 KiB.
  [[nodiscard]] static Result<std::shared_ptr<const AccessTable>> make(const std::vector<AccessRule>& rules);

  // Empty: this peer has no row. A table without rows grants everything to everybody whom TLS let in. Where several of a
  // certificate's names have rows the first counts: common name, whole subject, then its other names.
  [[nodiscard]] std::optional<Principal> principal(const tls::Peer& peer) const;
  [[nodiscard]] bool open() const { return rows_.empty(); }

 private:
  struct Row { std::string subject; std::vector<Scope> granted; };
  std::vector<Row> rows_;
};

}  // namespace zaris::feed
