// A certificate authority and certificates for development and tests. Never for anything else: the CA's key lies beside
// them. Used by `zaris tls dev-ca`, the quickstart and the tests.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::tls {

struct DevServer {
  std::string name = "server";            // NAME.crt, NAME.key; common name
  std::vector<std::string> alt_names;     // names and addresses beside localhost, 127.0.0.1, ::1 and `name` itself
};
struct DevClient {
  std::string name;                       // NAME.crt, NAME.key
  std::string subject;                    // common name; empty: the name
};
struct DevCaRequest {
  std::string directory;                  // made if it is not there
  std::vector<DevServer> servers{DevServer{}};
  std::vector<DevClient> clients;
  std::uint32_t days = 365;               // 0: certificates that ended yesterday (tests)
};

// Writes ca.crt, ca.key (kept if both are there already, so that certificates can be added), NAME.crt, NAME.key; keys with
// mode 0600; each file appears whole or not at all. Returns the paths written. Server certificates may also be shown
// as a client's (nodes of a cluster talk to each other). Errors: tls_dev_ca_failed.
[[nodiscard]] Result<std::vector<std::string>> make_dev_ca(const DevCaRequest& request);

}  // namespace zaris::tls
