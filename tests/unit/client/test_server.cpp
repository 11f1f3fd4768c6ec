#include "test_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "cluster/placement/scope.hpp"
#include "cluster/placement/slot.hpp"
#include "cluster/record/record_table.hpp"

namespace zaris::client {

using protocol::Opcode;

TestServer::TestServer(std::uint16_t port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || ::listen(listener_, 16) != 0) throw std::runtime_error("bind");
  socklen_t length = sizeof at;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &length);
  port_ = ntohs(at.sin_port);
  map_.version = map_.topology_version = 1;
  map_.segments = 16;
  map_.nodes.push_back({"n1", "", 0, 0});
  map_.runs.push_back({SegmentId{0}, SegmentId{15}, 0, Generation{1}});
  acceptor_ = std::thread([this] { accept_loop(); });
}

TestServer::~TestServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  hang_up();
  for (auto& thread : threads_) thread.join();
}

void TestServer::set_hook(Hook hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}
void TestServer::set_map(protocol::MapAnswer map) {
  const std::lock_guard lock(mutex_);
  map_ = std::move(map);
}
void TestServer::push(const std::string& bytes) {
  const std::lock_guard lock(mutex_);
  for (const int fd : open_) (void)!::write(fd, bytes.data(), bytes.size());
}
void TestServer::hang_up() {
  const std::lock_guard lock(mutex_);
  for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
}
std::map<std::string, std::string> TestServer::content() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> out;
  for (const auto& [key, entry] : store_) out[key] = entry.value;
  return out;
}
std::vector<std::string> TestServer::applied() const {
  const std::lock_guard lock(mutex_);
  return applied_;
}

void TestServer::accept_loop() {
  while (!stopping_) {
    const int fd = ::accept(listener_, nullptr, nullptr);
    if (fd < 0) continue;
    ++accepted_;
    const std::lock_guard lock(mutex_);
    open_.push_back(fd);
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void TestServer::serve(int fd) {
  std::string in;
  char buffer[65'536];
  bool open = true;
  while (open) {
    const auto got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) {
      ++(got < 0 && errno == ECONNRESET ? resets_ : ends_);
      break;
    }
    ++reads_;
    in.append(buffer, static_cast<std::size_t>(got));
    std::string out;
    while (open) {
      protocol::Frame frame;
      const auto step = protocol::FrameParser(16u << 20).parse(in, frame);
      if (step.step != protocol::FrameStep::frame) {
        open = step.step == protocol::FrameStep::need_more;
        break;
      }
      ++frames_;
      Hook hook;
      {
        const std::lock_guard lock(mutex_);
        hook = hook_;
      }
      const Verdict verdict = hook ? hook(frame) : Verdict{};
      if (verdict.kind == Verdict::Kind::serve) answer(frame, out);
      if (verdict.kind == Verdict::Kind::answer) out += verdict.bytes;
      if (verdict.kind == Verdict::Kind::hang_up) open = false;
      in.erase(0, step.consumed);
    }
    for (std::size_t at = 0; at < out.size();) {
      const auto sent = ::send(fd, out.data() + at, out.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) break;
      at += static_cast<std::size_t>(sent);
    }
  }
  const std::lock_guard lock(mutex_);
  open_.erase(std::find(open_.begin(), open_.end(), fd));
  ::close(fd);
}

void TestServer::answer(const protocol::Frame& frame, std::string& out) {
  const std::lock_guard lock(mutex_);
  const auto opcode = static_cast<Opcode>(frame.header.opcode);
  const std::uint32_t c = frame.header.correlation;
  const auto put = [this](std::string_view key, std::string_view value, WallMicros expires, const protocol::Condition& condition, ItemToken& token) {
    const auto held = store_.find(std::string(key));
    using Kind = protocol::Condition::Kind;
    if (condition.kind == Kind::absent && held != store_.end()) {
      token = held->second.token;
      return Status::conflict;
    }
    if (condition.kind == Kind::token && held == store_.end()) return Status::not_found;
    if (condition.kind == Kind::token && held->second.token != condition.token) {
      token = held->second.token;
      return Status::conflict;
    }
    token = {held == store_.end() ? 1 : held->second.token.item_version + 1, ++tags_};
    store_[std::string(key)] = {std::string(value), token, expires};
    return Status::ok;
  };
  const auto del = [this](std::string_view key) { return store_.erase(std::string(key)) != 0 ? Status::ok : Status::not_found; };
  switch (opcode) {
    case Opcode::hello: {
      protocol::Hello hello;
      if (!protocol::decode(frame.body, hello)) return;
      if (hello.cluster_expected && *hello.cluster_expected != cluster)
        return protocol::encode_error(out, opcode, Status::target_changed, c, "this is cluster " + hex16(cluster.value()));
      protocol::Welcome welcome;
      welcome.cluster = cluster;
      welcome.segments = map_.segments;
      welcome.key_bytes_max = 65'536;
      welcome.value_bytes_max = 4u << 20;
      welcome.node = "n1";
      return protocol::encode(out, c, welcome);
    }
    case Opcode::map: return protocol::encode(out, c, map_);
    case Opcode::get: {
      protocol::KeyRequest request;
      if (!protocol::decode(frame.body, request)) return;
      const auto held = store_.find(std::string(request.key));
      protocol::ReadAnswer got;
      got.status = held == store_.end() ? Status::not_found : Status::ok;
      if (held != store_.end()) {
        got.token = held->second.token;
        got.value = held->second.value;
        got.expires_us = held->second.expires_us;
      }
      return protocol::encode_get_answer(out, c, got);
    }
    case Opcode::put: {
      protocol::PutRequest request;
      if (!protocol::decode(frame.body, request)) return;
      protocol::WriteAnswer done;
      done.status = put(request.key, request.value, request.expires_us, request.condition, done.token);
      return protocol::encode(out, opcode, c, done);
    }
    case Opcode::del: {
      protocol::DeleteRequest request;
      if (!protocol::decode(frame.body, request)) return;
      protocol::WriteAnswer done;
      done.status = del(request.key);
      return protocol::encode(out, opcode, c, done);
    }
    case Opcode::batch: {
      protocol::BatchRequest request;
      if (!protocol::BatchRequest::decode(frame.body, request)) return;
      protocol::BatchAnswerWriter writer(out, c);
      protocol::BatchItem item;
      while (request.next(item)) {
        ItemToken token;
        if (item.opcode == Opcode::put) {
          const Status status = put(item.key, item.value, item.expires_us, item.condition, token);
          writer.write(status, token);
        } else if (item.opcode == Opcode::del) {
          writer.write(del(item.key), token);
        } else {
          const auto held = store_.find(std::string(item.key));
          if (held == store_.end()) {
            writer.read(Status::not_found, {}, 0, {});
          } else {
            writer.read(Status::ok, held->second.token, held->second.expires_us, held->second.value);
          }
        }
      }
      return writer.finish();
    }
    case Opcode::scan: {
      protocol::ScanRequest request;
      if (!protocol::decode(frame.body, request)) return;
      const auto scope = Scope::parse(request.scope_text);
      std::map<SlotKey, std::string> sorted;
      for (const auto& [key, entry] : store_) sorted[{slot_of(key), key}] = entry.value;
      protocol::ScanAnswer page;
      std::string table, records;
      for (const auto& [at, value] : sorted) {
        if (request.after && at <= *request.after) continue;
        if (!scope->has(at.slot, at.key)) continue;
        if (row_count(table) == request.count_max) {
          page.next = request.after;
          break;
        }
        EntryFields fields;
        fields.key = at.key;
        fields.value = value;
        const std::string record = make_record(fields, {});
        append_row(table, {static_cast<std::uint32_t>(record.size()), 0, at.slot, 0});
        records += record;
        request.after = at;
      }
      page.table = table;
      page.records = records;
      return protocol::encode(out, c, page);
    }
    case Opcode::read_marks: {
      protocol::ReadMarksRequest request;
      if (!protocol::decode(frame.body, request)) return;
      protocol::ReadMarksAnswer page;  // one segment a page
      page.rows.push_back({request.first, request.first, {}, std::nullopt});
      if (request.first.value() < 3) page.next = SegmentId{static_cast<std::uint16_t>(request.first.value() + 1)};
      return protocol::encode(out, c, page);
    }
    case Opcode::apply_batch: {
      ApplyBatch batch;
      ApplyAnswer done;
      if (!protocol::decode(frame.body, batch)) return protocol::encode_error(out, opcode, Status::invalid_argument, c, "malformed");
      applied_.push_back(std::string(batch.table) + std::string(batch.records));
      done.applied = row_count(batch.table);
      return protocol::encode(out, c, done);
    }
    case Opcode::open_link: return protocol::encode_error(out, opcode, Status::scope_mismatch, c, "overlaps with link other");
    default: return protocol::encode_error(out, opcode, Status::unsupported, c, "not here");
  }
}

}  // namespace zaris::client
