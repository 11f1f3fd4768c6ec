#include "cluster/region/register_document.hpp"

#include <algorithm>

#include "cluster/coordinator/coordinator_rows.hpp"
#include "cluster/protocol/pack.hpp"

namespace zaris::region {

using protocol::Packer;
using protocol::Places;
using protocol::Unpacker;

std::string encode(const RegisterDocument& document) {
  std::string out;
  Packer pack(out);
  pack.array(2);
  pack.array(static_cast<std::uint32_t>(document.links.links.size()));
  for (const coordinator::LinkEntry& entry : document.links.links) pack.bin(coordinator::encode(entry));
  pack.array(static_cast<std::uint32_t>(document.scopes.size()));
  for (const auto& [id, scope] : document.scopes) {
    pack.array(2);
    pack.u64(id);
    pack.bin(coordinator::encode(coordinator::ScopeRow{scope.first, scope.second}));
  }
  return out;
}

Result<RegisterDocument> decode_register(std::string_view bytes) {
  RegisterDocument out;
  Unpacker in(bytes);
  Places places(in);
  bool newer = false;
  if (places.take()) {
    for (std::uint32_t n = in.array(); n > 0 && in.ok(); --n) {
      coordinator::LinkEntry entry;
      if (!coordinator::decode(in.bytes(), entry, newer)) in.fail();
      else out.links.links.push_back(std::move(entry));
    }
  }
  if (places.take()) {
    for (std::uint32_t n = in.array(); n > 0 && in.ok(); --n) {
      Places row(in);
      const std::uint64_t id = row.uint();
      coordinator::ScopeRow scope;
      if (!coordinator::decode(row.bytes(), scope, newer)) in.fail();
      row.finish();
      out.scopes[id] = {scope.text, scope.epoch};
    }
  }
  places.finish();
  if (!in.ok()) {
    return failure("cluster_document_malformed", "the region's register of links in etcd cannot be read",
                   newer ? "it was written by a newer version: run that, or a newer one" : "was it written by something else?");
  }
  std::sort(out.links.links.begin(), out.links.links.end(), [](const auto& a, const auto& b) { return a.link < b.link; });
  return out;
}

}  // namespace zaris::region
