// Any bytes as a body of etcd's answers and as a line of its streams: read or refused, without memory out of proportion.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "../allocation/peak.hpp"
#include "cluster/base/base64.hpp"
#include "cluster/etcd/etcd_json.hpp"

namespace {

using namespace zaris::etcd;

template <class Decode>
void bounded(std::size_t size, Decode decode) {
  const zaris::fuzz::PeakAllocation peak;
  decode();
  peak.check(size, 256u << 10, 64);
}

template <class Answer>
void try_answer(std::string_view body) {
  bounded(body.size(), [&] {
    Answer out;
    // What counts as an answer has etcd's revision: everything else is judged by it.
    if (decode(body, out) && out.revision.value() <= 0) std::abort();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  try_answer<RangeAnswer>(body);
  try_answer<TxnAnswer>(body);
  try_answer<Answered>(body);
  try_answer<TimeToLiveAnswer>(body);
  bounded(size, [&] {
    LeaseAnswer out;
    if (decode_grant(body, out) && (out.lease == LeaseId{} || out.ttl.count() <= 0)) std::abort();
  });
  bounded(size, [&] {
    LeaseAnswer out;
    if (decode_keep_alive(body, out) && out.lease == LeaseId{}) std::abort();
  });
  bounded(size, [&] {
    std::string token;
    if (decode_login(body, token) && (token.empty() || token.find('\n') != token.npos)) std::abort();
  });
  bounded(size, [&] {
    const ServerError error = read_error(400, body);
    if (error.code < -1 || error.code > 16 || error.message.size() > 2048) std::abort();
    (void)stream_error(body);
  });
  bounded(size, [&] {
    WatchLine out;
    if (!decode(body, out)) return;
    for (const Event& event : out.events) {
      if (event.row.mod_revision.value() <= 0) std::abort();
    }
  });
  std::string bytes;
  if (zaris::from_base64(body, bytes) && zaris::to_base64(bytes) != body) std::abort();
  return 0;
}
