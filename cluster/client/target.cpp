#include "cluster/client/target.hpp"

#include "cluster/base/assert.hpp"

namespace zaris::client {
namespace {

constexpr std::size_t lone_bytes = 2u << 10;

Error unreadable(std::string_view what) {
  return Error{"protocol_malformed", "the answer to " + std::string(what) + " cannot be read", "are both sides of versions that work together?"};
}

// Decodes an answer of status ok into T and hands it, or its refusal, to the handler.
template <class T>
AnswerHandler decoded(std::string_view what, std::function<void(Result<T>)> handler) {
  return [what, handler = std::move(handler)](Result<Answer> answer) {
    if (!answer) return handler(tl::unexpected(std::move(answer.error())));
    if (answer->status != Status::ok) return handler(tl::unexpected(refusal_of(answer->status, answer->body)));
    T value;
    if (!protocol::decode(answer->body, value)) return handler(tl::unexpected(unreadable(what)));
    handler(std::move(value));
  };
}

}  // namespace

std::string code_of(Status status) {
  std::string out;
  for (const char c : zaris::name(status)) {
    if (c >= 'A' && c <= 'Z') {
      if (!out.empty()) out += '_';
      out += static_cast<char>(c - 'A' + 'a');
    } else {
      out += c;
    }
  }
  return out;
}

Error refusal_of(Status status, std::string_view body) {
  protocol::ErrorAnswer said;
  if (!protocol::decode_error(body, said)) said.reason = "the server answered " + std::string(zaris::name(status));
  return Error{code_of(status), std::move(said.reason), std::move(said.hint)};
}

std::shared_ptr<TargetConnection> TargetConnection::open(std::shared_ptr<Loop> loop, const ClientOptions& options, std::size_t seed,
                                                         Events events, Generation generation_seen) {
  ZARIS_ASSERT(seed < options.seeds.size(), seed);
  ConnectionOptions one;
  one.host = options.seeds[seed].host;
  one.port = options.seeds[seed].port;
  one.tls = options.tls;
  one.cluster_expected = options.cluster_expected;
  one.store = options.store;
  one.token = options.token;
  one.program = options.program;
  one.role = protocol::PeerRole::follower;
  one.generation_seen = generation_seen;
  one.connect_timeout = options.connect_timeout;
  one.silence = options.silence;
  auto connection = Connection::open(std::move(loop), std::move(one),
                                     {std::move(events.on_up), std::move(events.on_down), std::move(events.on_map)});
  return std::shared_ptr<TargetConnection>(new TargetConnection(std::move(connection), options.timeout));
}

TargetConnection::~TargetConnection() { connection_->close(); }
void TargetConnection::close() { connection_->close(); }

void TargetConnection::open_link(const protocol::OpenLinkRequest& request,
                                 std::function<void(Result<protocol::OpenLinkAnswer>, Status)> handler) {
  connection_->send([&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); }, timeout_,
                    [handler = std::move(handler)](Result<Answer> answer) {
                      if (!answer) return handler(tl::unexpected(std::move(answer.error())), Status::ok);
                      if (answer->status != Status::ok)
                        return handler(tl::unexpected(refusal_of(answer->status, answer->body)), answer->status);
                      protocol::OpenLinkAnswer value;
                      if (!protocol::decode(answer->body, value)) return handler(tl::unexpected(unreadable("OpenLink")), Status::ok);
                      handler(value, Status::ok);
                    });
}

namespace {

// One page after the other; kept alive by its own callbacks.
struct MarkPages : std::enable_shared_from_this<MarkPages> {
  std::shared_ptr<Connection> connection;
  std::chrono::milliseconds timeout;
  std::string link;
  ScopeId scope;
  Durability durability = Durability::store_default;
  TargetConnection::Marks marks;
  TargetConnection::Handler<TargetConnection::Marks> handler;

  void ask(SegmentId first) {
    const protocol::ReadMarksRequest request{link, scope, first, durability};
    connection->send([&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); }, timeout,
                     decoded<protocol::ReadMarksAnswer>("ReadMarks", [self = shared_from_this(), first](Result<protocol::ReadMarksAnswer> page) {
                       if (!page) return self->handler(tl::unexpected(std::move(page.error())));
                       for (auto& row : page->rows) self->marks.rows.push_back(std::move(row));
                       self->marks.served.insert(self->marks.served.end(), page->served.begin(), page->served.end());
                       if (!page->next) return self->handler(std::move(self->marks));
                       if (*page->next <= first) return self->handler(tl::unexpected(unreadable("ReadMarks")));
                       self->ask(*page->next);
                     }));
  }
};

}  // namespace

void TargetConnection::read_marks(std::string link, ScopeId scope, Durability durability, Handler<Marks> handler) {
  auto pages = std::make_shared<MarkPages>();
  pages->connection = connection_;
  pages->timeout = timeout_;
  pages->link = std::move(link);
  pages->scope = scope;
  pages->durability = durability;
  pages->handler = std::move(handler);
  pages->ask(SegmentId{0});
}

void TargetConnection::mark_checksum(std::string_view link, ScopeId scope, Handler<std::uint64_t> handler) {
  const protocol::MarkChecksumRequest request{link, scope};
  connection_->send([&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); }, timeout_,
                    decoded<protocol::MarkChecksumAnswer>("MarkChecksum", [handler = std::move(handler)](Result<protocol::MarkChecksumAnswer> answer) {
                      if (!answer) return handler(tl::unexpected(std::move(answer.error())));
                      handler(answer->checksum);
                    }));
}

void TargetConnection::list_rolled_back(const protocol::ListRolledBackRequest& request, Handler<RolledBack> handler) {
  connection_->send([&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); }, timeout_,
                    [handler = std::move(handler)](Result<Answer> answer) {
                      if (!answer) return handler(tl::unexpected(std::move(answer.error())));
                      if (answer->status != Status::ok) return handler(RolledBack{answer->status, refusal_of(answer->status, answer->body).what, {}, {}, {}});
                      protocol::ListRolledBackAnswer page;
                      if (!protocol::decode(answer->body, page)) return handler(tl::unexpected(unreadable("ListRolledBack")));
                      handler(RolledBack{Status::ok, {}, std::string(page.table), std::string(page.records), page.below});
                    });
}

void TargetConnection::follower_lease(const protocol::FollowerLeaseRequest& request, Handler<protocol::FollowerLeaseAnswer> handler) {
  connection_->send([&](std::string& out, std::uint32_t correlation) { protocol::encode(out, correlation, request); }, timeout_,
                    decoded<protocol::FollowerLeaseAnswer>("FollowerLease", std::move(handler)));
}

void TargetConnection::status(Handler<protocol::StatusAnswer> handler) {
  connection_->send([](std::string& out, std::uint32_t correlation) { protocol::encode_status_request(out, correlation); }, timeout_,
                    decoded<protocol::StatusAnswer>("Status", std::move(handler)));
}

void TargetConnection::map(Handler<protocol::MapAnswer> handler) {
  connection_->send([](std::string& out, std::uint32_t correlation) { protocol::encode_map_request(out, correlation); }, timeout_,
                    decoded<protocol::MapAnswer>("Map", std::move(handler)));
}

void TargetConnection::apply(const ApplyBatch& batch, std::shared_ptr<const void> hold, Handler<ApplyAnswer> handler) {
  // Lone changes of a steady stream: nobody waits for their answers, and each that comes by itself wakes both ends.
  const bool lone = batch.kind == ApplyKind::stream && batch.records.size() <= lone_bytes;
  const std::uint16_t flags = lone ? protocol::flag_answer_may_wait : 0;
  connection_->send([&](std::string& out, std::uint32_t correlation) { protocol::encode_apply(out, correlation, batch, flags); }, timeout_,
                    [handler = std::move(handler)](Result<Answer> answer) {
                      if (!answer) return handler(tl::unexpected(std::move(answer.error())));
                      ApplyAnswer value;
                      if (protocol::decode(answer->body, value)) return handler(std::move(value));
                      if (answer->status == Status::ok) return handler(tl::unexpected(unreadable("ApplyBatch")));
                      const Error refusal = refusal_of(answer->status, answer->body);
                      value = {};
                      value.status = answer->status;
                      value.reason = refusal.what;
                      handler(std::move(value));
                    },
                    Behind{{batch.table, batch.records}, std::move(hold)});
}

}  // namespace zaris::client
