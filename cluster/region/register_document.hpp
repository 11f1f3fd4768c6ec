// The register of links of a region of several processes, as one document in etcd: the links with their scopes, and the site epochs of
// scopes, which outlive their links. Its rows are the local coordinator's (docs/formats/coordinator.md, docs/formats/etcd.md).
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "cluster/coordinator/coordinator.hpp"

namespace zaris::region {

struct RegisterDocument {
  coordinator::LinkRegister links;
  std::map<std::uint64_t, std::pair<std::string, SiteEpoch>> scopes;   // scope id → text, epoch
};
[[nodiscard]] std::string encode(const RegisterDocument& document);
[[nodiscard]] Result<RegisterDocument> decode_register(std::string_view bytes);  // errors: `cluster_document_malformed`

}  // namespace zaris::region
