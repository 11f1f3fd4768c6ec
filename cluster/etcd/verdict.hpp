// What an attempt to ask one endpoint of etcd means: for the caller (did it happen?), for the endpoint, for the token.
// Pure. The rule behind it: a change is sent at most once, unless what answered says that it was not executed.
#pragma once
#include <optional>
#include <string>

#include "cluster/etcd/etcd.hpp"
#include "cluster/etcd/etcd_json.hpp"

namespace zaris::etcd {

enum class Effect : std::uint8_t {
  repeatable,  // reads, renewals, logins: doing it twice is doing it once
  change,
};

struct Verdict {
  Outcome outcome = Outcome::refused;
  Error error;
  bool elsewhere = false;      // ask another endpoint first; outcome and error are for when there is none left
  bool endpoint_bad = false;   // leave it alone for a while
  bool token_stale = false;    // log in again, then ask once more
};

// No answer came: the connection was not made, broke, or was silent for too long. `sent`: bytes of the request may have
// reached the kernel. `tls`: it failed at TLS.
[[nodiscard]] Verdict judge_silence(const std::string& endpoint, Effect effect, bool sent, bool tls, const std::string& reason);

// etcd (or something else on that port) said no.
[[nodiscard]] Verdict judge_error(const std::string& endpoint, Effect effect, const ServerError& said);

// 200 with a body that is none of etcd's.
[[nodiscard]] Verdict judge_malformed(const std::string& endpoint, Effect effect);

// An answer over the limit: it was executed or not.
[[nodiscard]] Verdict judge_too_large(const std::string& endpoint, Effect effect, std::size_t limit_bytes);

// A line of a watch that ends it, or that cannot be read (`readable` false). Empty: it goes on.
struct LineVerdict {
  Verdict verdict;  // of the attempt, if the watch had not been opened
  WatchEnd end;     // if it had
};
[[nodiscard]] std::optional<LineVerdict> judge_line(const std::string& endpoint, bool readable, const WatchLine& line);

}  // namespace zaris::etcd
