// The bodies of etcd's JSON gateway: keys and values in base64, 64-bit numbers as strings, fields of their default value
// left out. Pure; what cannot be read is told as false, never by an exception.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/etcd/etcd.hpp"

namespace zaris::etcd {

[[nodiscard]] std::string encode(const RangeRequest& request);
[[nodiscard]] std::string encode(const TxnRequest& request);
[[nodiscard]] std::string encode(const WatchRequest& request);
[[nodiscard]] std::string encode_grant(std::chrono::seconds ttl, LeaseId id);
[[nodiscard]] std::string encode_lease(LeaseId id);                 // keepalive, revoke
[[nodiscard]] std::string encode_time_to_live(LeaseId id);
[[nodiscard]] std::string encode_compact(EtcdRevision revision);
[[nodiscard]] std::string encode_login(const std::string& user, const std::string& password);

// Of bodies that came with 200. They set `revision` and what is the answer's own, and the outcome where the body decides it.
[[nodiscard]] bool decode(std::string_view body, RangeAnswer& out);
[[nodiscard]] bool decode(std::string_view body, TxnAnswer& out);
[[nodiscard]] bool decode(std::string_view body, Answered& out);
[[nodiscard]] bool decode_grant(std::string_view body, LeaseAnswer& out);
[[nodiscard]] bool decode_keep_alive(std::string_view body, LeaseAnswer& out);   // one line of a stream
[[nodiscard]] bool decode(std::string_view body, TimeToLiveAnswer& out);
[[nodiscard]] bool decode_login(std::string_view body, std::string& token);

// How etcd says no: {"message", "code"} with a status, or {"error": {"message", "grpc_code"}} in a stream.
struct ServerError {
  int http = 0;
  int code = -1;             // gRPC's; −1: the body is none of etcd's
  std::string message;
};
[[nodiscard]] ServerError read_error(int http, std::string_view body);
// An error where a stream's message was due.
[[nodiscard]] std::optional<ServerError> stream_error(std::string_view body);

// One line of a watch.
struct WatchLine {
  EtcdRevision revision;
  bool created = false, canceled = false, fragment = false;  // fragment: more of the same change follows
  EtcdRevision compact_revision;
  std::string cancel_reason;
  std::vector<Event> events;
  std::optional<ServerError> error;
};
[[nodiscard]] bool decode(std::string_view line, WatchLine& out);

}  // namespace zaris::etcd
