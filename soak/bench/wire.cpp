#include "soak/bench/wire.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "cluster/placement/slot.hpp"
#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/frame.hpp"

namespace zaris::bench {
namespace {

class NativeWire final : public Wire {
 public:
  explicit NativeWire(Durability durability) : durability_(durability) {}
  void put(std::string& out, std::string_view key, std::string_view value) override {
    protocol::PutRequest request;
    request.key = key;
    request.value = value;
    request.durability = durability_;
    protocol::encode(out, ++correlation_, request);
  }
  void get(std::string& out, std::string_view key) override { protocol::encode_get(out, ++correlation_, key); }
  std::size_t take(std::string_view in, std::string_view& value) override {
    protocol::Frame frame;
    const auto step = parser_.parse(in, frame);
    if (step.step == protocol::FrameStep::need_more) return 0;
    if (step.step != protocol::FrameStep::frame) throw std::runtime_error("native: a malformed answer");
    value = {};
    if (frame.header.correlation == 0) {  // a Map that nobody asked for; counts with the answer behind it
      const std::size_t rest = take(in.substr(step.consumed), value);
      return rest == 0 ? 0 : step.consumed + rest;
    }
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
  const Durability durability_;
  protocol::FrameParser parser_{16u << 20};
  std::uint32_t correlation_ = 0;
};

class RespWire final : public Wire {
 public:
  explicit RespWire(bool wait) : wait_(wait) {}
  void put(std::string& out, std::string_view key, std::string_view value) override {
    fmt::format_to(std::back_inserter(out), "*3\r\n$3\r\nSET\r\n${}\r\n", key.size());
    out.append(key);
    fmt::format_to(std::back_inserter(out), "\r\n${}\r\n", value.size());
    out.append(value).append("\r\n");
    if (wait_) out.append("*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n1000\r\n");
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
    if (in[0] == '+' && wait_) {
      const auto count = in.find("\r\n", end + 2);
      if (count == std::string_view::npos) return 0;
      if (in.substr(end + 2, count - end - 2) == ":0") throw std::runtime_error("redis: WAIT found no replica");
      return count + 2;
    }
    if (in[0] != '$') return end + 2;
    const long size = std::stol(std::string(in.substr(1, end - 1)));
    if (size < 0) return end + 2;
    const std::size_t whole = end + 2 + static_cast<std::size_t>(size) + 2;
    if (in.size() < whole) return 0;
    value = in.substr(end + 2, static_cast<std::size_t>(size));
    return whole;
  }
  std::string greeting() override { return {}; }

 private:
  const bool wait_;
};

Durability durability_of(const std::string& text) {
  constexpr std::pair<std::string_view, Durability> known[]{{"default", Durability::store_default}, {"owner", Durability::owner}, {"replica", Durability::replica},
                                                            {"majority", Durability::majority}, {"all", Durability::all}};
  for (const auto& [word, value] : known) {
    if (word == text) return value;
  }
  throw std::runtime_error("durability must be default, owner, replica, majority or all, not " + text);
}

std::int64_t micros(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000 + t.tv_nsec / 1000;
}

}  // namespace

std::unique_ptr<Wire> make_wire(const std::string& protocol, const std::string& durability) {
  if (protocol == "native") return std::make_unique<NativeWire>(durability_of(durability));
  if (protocol == "resp") return std::make_unique<RespWire>(false);
  if (protocol == "resp-wait") return std::make_unique<RespWire>(true);
  throw std::runtime_error("protocol must be native, resp or resp-wait, not " + protocol);
}

std::function<std::size_t(std::string_view)> owners_by_map(const std::vector<int>& ports) {
  NativeWire wire(Durability::store_default);
  const int s = open_session(ports.at(0), wire);
  std::string bytes;
  protocol::encode_map_request(bytes, 1);
  send_all(s, bytes);
  protocol::FrameParser parser(16u << 20);
  protocol::MapAnswer map;
  std::string in;
  for (char buffer[4096];;) {
    const auto n = ::recv(s, buffer, sizeof buffer, 0);
    if (n <= 0) throw std::runtime_error("the server closed the connection when asked for its map");
    in.append(buffer, static_cast<std::size_t>(n));
    protocol::Frame frame;
    if (parser.parse(in, frame).step == protocol::FrameStep::need_more) continue;
    if (!protocol::decode(frame.body, map)) throw std::runtime_error("native: a malformed Map");
    break;
  }
  ::close(s);
  std::vector<std::size_t> node_port(map.nodes.size());
  for (std::size_t i = 0; i < map.nodes.size(); ++i) {
    const auto at = std::find(ports.begin(), ports.end(), map.nodes[i].port);
    if (at == ports.end() && ports.size() > 1) throw std::runtime_error(fmt::format("node {} is not among the ports", map.nodes[i].id));
    node_port[i] = at == ports.end() ? 0 : static_cast<std::size_t>(at - ports.begin());
  }
  std::vector<std::size_t> owner(map.segments, ports.size());
  for (const protocol::MapRun& run : map.runs) {
    for (std::uint32_t i = run.first.value(); i <= run.last.value(); ++i) owner[i] = node_port[run.node];
  }
  if (std::find(owner.begin(), owner.end(), ports.size()) != owner.end()) throw std::runtime_error("a segment has no owner");
  return [owner, segments = map.segments](std::string_view key) { return owner[segment_of(slot_of(key), segments).value()]; };
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
