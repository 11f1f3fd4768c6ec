#include "cluster/etcd/verdict.hpp"

#include <fmt/format.h>

namespace zaris::etcd {
namespace {

// gRPC's status codes (https://grpc.io/docs/guides/status-codes/).
enum Code { canceled = 1, unknown = 2, invalid_argument = 3, deadline_exceeded = 4, not_found = 5, permission_denied = 7, resource_exhausted = 8,
            failed_precondition = 9, out_of_range = 11, unimplemented = 12, internal = 13, unavailable = 14, data_loss = 15, unauthenticated = 16 };

bool says(const ServerError& said, std::string_view words) { return said.message.find(words) != std::string::npos; }

Verdict refused(std::string text, std::string hint = {}) { return {Outcome::refused, Error{"etcd_refused", std::move(text), std::move(hint)}}; }

Verdict unauthorized(std::string text) {
  return {Outcome::unauthorized, Error{"etcd_unauthorized", std::move(text), "check etcd.user, its password file, and the roles that etcd gives the user"}};
}

Verdict not_executed(std::string text) {
  return {Outcome::unreachable, Error{"etcd_unreachable", std::move(text), {}}, true, true};
}

// It may have been executed: for a change that is the end of it, anything else may be asked of another endpoint.
Verdict in_doubt(Effect effect, std::string text) {
  if (effect == Effect::repeatable) return not_executed(std::move(text));
  return {Outcome::unknown, Error{"etcd_outcome_unknown", std::move(text) + "; whether it was done is not known", {}}, false, true};
}

}  // namespace

Verdict judge_silence(const std::string& endpoint, Effect effect, bool sent, bool tls, const std::string& reason) {
  const std::string text = fmt::format("{}: {}", endpoint, reason);
  if (tls) {
    Verdict out = not_executed(text);
    out.error = Error{"etcd_tls_failed", text, "check etcd.ca and the client certificate, and that the certificate of etcd names the host that is dialled"};
    return out;
  }
  return sent ? in_doubt(effect, text) : not_executed(text);
}

Verdict judge_error(const std::string& endpoint, Effect effect, const ServerError& said) {
  const std::string text = fmt::format("{}: {}", endpoint, said.message.empty() ? fmt::format("status {}", said.http) : said.message);
  switch (said.code) {
    case unauthenticated: {
      Verdict out = unauthorized(text);
      out.token_stale = true;
      return out;
    }
    case invalid_argument: {
      if (says(said, "authentication failed")) return unauthorized(text);
      // No token where one is wanted, or one from before users and roles were changed.
      const bool stale = says(said, "user name is empty") || says(said, "revision of auth store is old");
      Verdict out = stale ? unauthorized(text) : refused(text);
      out.token_stale = stale;
      if (says(said, "request is too large") || says(said, "too many operations")) out.error.code = "etcd_request_too_large";
      return out;
    }
    case permission_denied: return unauthorized(text);
    case not_found:
      if (says(said, "lease not found")) return {Outcome::lease_gone, Error{"etcd_lease_gone", text, {}}};
      return refused(text);
    case out_of_range:
      if (says(said, "compacted")) return {Outcome::compacted, Error{"etcd_compacted", text, {}}};
      return refused(text);
    case resource_exhausted:
      if (says(said, "space exceeded"))
        return {Outcome::no_space, Error{"etcd_no_space", text, "compact and defragment etcd, or raise its quota; then clear the alarm with `etcdctl alarm disarm`"}};
      if (says(said, "too many requests")) return not_executed(text);
      if (says(said, "larger than max")) return {effect == Effect::change ? Outcome::unknown : Outcome::refused, Error{"etcd_answer_too_large", text, {}}};
      return refused(text);
    case failed_precondition: return refused(text);
    case unimplemented: return refused(text, "etcd 3.4 or newer is needed");
    case data_loss: return refused(text, "etcd has found its members to differ (`etcdctl alarm list`); see its page on data corruption");
    case unavailable:
      if (says(said, "no leader") || says(said, "not capable") || says(said, "not supported for learner")) return not_executed(text);
      return in_doubt(effect, text);
    case canceled:
    case unknown:
    case deadline_exceeded:
    case internal: return in_doubt(effect, text);
    default: break;
  }
  if (said.code >= 0) return in_doubt(effect, text);
  // Its gateway takes nobody for the name in a certificate, and with users on says so instead of anything else.
  if (said.http == 400 && says(said, "CommonName of client"))
    return {Outcome::unauthorized, Error{"etcd_unauthorized", text, "with users, show etcd a client certificate without a common name (subject \"O=zaris\"), or none"}};
  // Not etcd's words: a proxy that lost its server, or another program altogether.
  if (said.http >= 500) return in_doubt(effect, fmt::format("{}: status {}", endpoint, said.http));
  return {Outcome::unreachable,
          Error{"etcd_answer_malformed", fmt::format("{}: status {}: {}", endpoint, said.http, said.message), "is that the client port of an etcd of version 3.4 or newer, with its gRPC gateway on?"},
          true, true};
}

Verdict judge_malformed(const std::string& endpoint, Effect effect) {
  return {effect == Effect::change ? Outcome::unknown : Outcome::unreachable,
          Error{"etcd_answer_malformed", fmt::format("{} answered with something that cannot be read", endpoint), "is that the client port of an etcd of version 3.4 or newer?"},
          effect == Effect::repeatable, true};
}

Verdict judge_too_large(const std::string& endpoint, Effect effect, std::size_t limit_bytes) {
  return {effect == Effect::change ? Outcome::unknown : Outcome::refused,
          Error{"etcd_answer_too_large", fmt::format("an answer of {} is larger than {} bytes", endpoint, limit_bytes), "ask for fewer rows"}};
}

std::optional<LineVerdict> judge_line(const std::string& endpoint, bool readable, const WatchLine& line) {
  using Why = WatchEnd::Why;
  if (!readable) {
    const Verdict verdict = judge_malformed(endpoint, Effect::repeatable);
    return LineVerdict{verdict, {Why::lost, {}, verdict.error}};
  }
  if (line.error) {
    const Verdict verdict = judge_error(endpoint, Effect::repeatable, *line.error);
    return LineVerdict{verdict, {verdict.outcome == Outcome::unauthorized ? Why::unauthorized : Why::lost, {}, verdict.error}};
  }
  if (!line.canceled) return std::nullopt;
  if (line.compact_revision.value() > 0) {
    const Error error{"etcd_compacted", fmt::format("{}: the revisions below {} are gone", endpoint, line.compact_revision.value()), {}};
    return LineVerdict{{Outcome::compacted, error}, {Why::compacted, line.compact_revision, error}};
  }
  // Words only: those of a status without its number. 3.4 calls a token that it does not know a permission denied.
  for (const char* denial : {"permission denied", "auth token", "auth store", "user name is empty"}) {
    if (line.cancel_reason.find(denial) == std::string::npos) continue;
    const Verdict verdict = judge_error(endpoint, Effect::repeatable, {403, permission_denied, line.cancel_reason});
    return LineVerdict{verdict, {Why::unauthorized, {}, verdict.error}};
  }
  const std::string& why = line.cancel_reason.empty() ? "it ended the watch" : line.cancel_reason;
  return LineVerdict{judge_silence(endpoint, Effect::repeatable, true, false, why), {Why::lost, {}, Error{"etcd_watch_lost", fmt::format("{}: {}", endpoint, why), {}}}};
}

}  // namespace zaris::etcd
