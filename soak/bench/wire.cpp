#include "soak/bench/wire.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/frame.hpp"

namespace zaris::bench {
namespace {

class NativeWire final : public Wire {
 public:
  void put(std::string& out, std::string_view key, std::string_view value) override {
    protocol::PutRequest request;
    request.key = key;
    request.value = value;
    protocol::encode(out, ++correlation_, request);
  }
  void get(std::string& out, std::string_view key) override { protocol::encode_get(out, ++correlation_, key); }
  std::size_t take(std::string_view in, std::string_view& value) override {
    protocol::Frame frame;
    const auto step = parser_.parse(in, frame);
    if (step.step == protocol::FrameStep::need_more) return 0;
    if (step.step != protocol::FrameStep::frame) throw std::runtime_error("native: a malformed answer");
    value = {};
    const auto status = static_cast<Status>(frame.header.status);
    if (status != Status::ok && status != Status::not_found) throw std::runtime_error(fmt::format("native: {}", name(status)));
    if (frame.header.opcode == static_cast<std::uint8_t>(protocol::Opcode::get) && status == Status::ok) {
      protocol::ReadAnswer answer;
      if (!protocol::decode(frame.body, answer)) throw std::runtime_error("native: a malformed answer to Get");
      value = answer.value;
    }
    return step.consumed;
  }
  std::string greeting() override {
    std::string out;
    protocol::Hello hello;
    hello.program = "bench";
    protocol::encode(out, 0xffffff, hello);
    return out;
  }

 private:
  protocol::FrameParser parser_{16u << 20};
  std::uint32_t correlation_ = 0;
};

class RespWire final : public Wire {
 public:
  void put(std::string& out, std::string_view key, std::string_view value) override {
    fmt::format_to(std::back_inserter(out), "*3\r\n$3\r\nSET\r\n${}\r\n", key.size());
    out.append(key);
    fmt::format_to(std::back_inserter(out), "\r\n${}\r\n", value.size());
    out.append(value).append("\r\n");
  }
  void get(std::string& out, std::string_view key) override {
    fmt::format_to(std::back_inserter(out), "*2\r\n$3\r\nGET\r\n${}\r\n", key.size());
    out.append(key).append("\r\n");
  }
  std::size_t take(std::string_view in, std::string_view& value) override {
    value = {};
    const auto end = in.find("\r\n");
    if (end == std::string_view::npos) return 0;
    if (in[0] == '-') throw std::runtime_error("redis: " + std::string(in.substr(0, end)));
    if (in[0] != '$') return end + 2;
    const long size = std::stol(std::string(in.substr(1, end - 1)));
    if (size < 0) return end + 2;
    const std::size_t whole = end + 2 + static_cast<std::size_t>(size) + 2;
    if (in.size() < whole) return 0;
    value = in.substr(end + 2, static_cast<std::size_t>(size));
    return whole;
  }
  std::string greeting() override { return {}; }
};

std::int64_t micros(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000 + t.tv_nsec / 1000;
}

}  // namespace

std::unique_ptr<Wire> make_wire(const std::string& protocol) {
  if (protocol == "native") return std::make_unique<NativeWire>();
  if (protocol == "resp") return std::make_unique<RespWire>();
  throw std::runtime_error("protocol must be native or resp, not " + protocol);
}

int connect_to(int port) {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (s < 0 || ::connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error(fmt::format("cannot connect to port {}", port));
  }
  const int on = 1;
  ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return s;
}

void send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) throw std::runtime_error("the server closed the connection");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

int open_session(int port, Wire& wire) {
  const int s = connect_to(port);
  const std::string hello = wire.greeting();
  if (hello.empty()) return s;
  send_all(s, hello);
  std::string in;
  char buffer[4096];
  std::string_view value;
  while (wire.take(in, value) == 0) {
    const auto n = ::recv(s, buffer, sizeof buffer, 0);
    if (n <= 0) throw std::runtime_error("the server closed the connection at the greeting");
    in.append(buffer, static_cast<std::size_t>(n));
  }
  return s;
}

std::uint64_t process_cpu_ns(int pid) {
  clockid_t clock;
  timespec t{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0) return 0;
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t process_resident_bytes(int pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::int64_t monotonic_us() { return micros(CLOCK_MONOTONIC); }
std::int64_t wall_us() { return micros(CLOCK_REALTIME); }

std::string key_of(std::uint64_t number) { return fmt::format("key:{:012}", number); }

}  // namespace zaris::bench
