// The two protocols that the load generators speak, over plain blocking or non-blocking sockets: as little as needed to
// put the same load on Zaris and on Redis with the same program.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zaris::bench {

class Wire {
 public:
  virtual ~Wire() = default;
  virtual void put(std::string& out, std::string_view key, std::string_view value) = 0;
  virtual void get(std::string& out, std::string_view key) = 0;
  // Takes one whole answer off the front of `in`. 0: not whole yet; else its size. `value`: of a get, empty when missing.
  // Throws std::runtime_error for an error answer.
  virtual std::size_t take(std::string_view in, std::string_view& value) = 0;
  // What must be exchanged before the first request (native Hello); answered by one answer. Empty: nothing.
  virtual std::string greeting() = 0;
};

// "native" or "resp", or "resp-wait": each SET is followed by WAIT 1, and both are one answer. Throws for another name.
// `durability` of native puts: default, owner, replica, majority, all.
std::unique_ptr<Wire> make_wire(const std::string& protocol, const std::string& durability = "default");

// Which of the nodes, by their client ports, owns a key: from the Map of the first one. Throws when a segment has no owner or one
// that is not among them. The result: of a key the index of its port.
std::function<std::size_t(std::string_view)> owners_by_map(const std::vector<int>& ports);

// Connected TCP socket with TCP_NODELAY on loopback; throws.
int connect_to(int port);
// Sends all, blocking.
void send_all(int socket, std::string_view bytes);
// Connects and greets.
int open_session(int port, Wire& wire);

// Nanoseconds of CPU that a process (all its threads, ended ones included) has used, from /proc.
std::uint64_t process_cpu_ns(int pid);
// Resident bytes of a process.
std::uint64_t process_resident_bytes(int pid);

std::int64_t monotonic_us();
std::int64_t wall_us();

// 16-byte keys as the figures have them, and their values: random bytes, the same for a seed.
std::string key_of(std::uint64_t number);

}  // namespace zaris::bench
