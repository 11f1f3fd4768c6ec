// A directory of its own, certificates in it, and two channels over a socket pair.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "cluster/tls/channel.hpp"
#include "cluster/tls/context.hpp"
#include "cluster/tls/dev_ca.hpp"

namespace zaris::tls {

class Directory {
 public:
  Directory();
  ~Directory();
  [[nodiscard]] std::string file(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

void write_file(const std::string& path, const std::string& content);
std::string read_file(const std::string& path);
// A CA with certificate "server" (alternative names as given) and clients.
void make_set(const std::string& directory, std::vector<std::string> alt_names = {}, std::vector<DevClient> clients = {{"follower", ""}}, std::uint32_t days = 30);
std::shared_ptr<Context> server_of(const Directory& d, ClientAuth auth = ClientAuth::required, const std::string& name = "server");
std::shared_ptr<Context> client_of(const Directory& d, const std::string& name = "follower");

// Both ends of a connection in one thread; steps both until neither moves.
struct Pair {
  Pair(const Context* server, const Context* client, const std::string& host = "localhost");
  ~Pair();
  // Drives both handshakes as far as they go; then the client reads once, since a server's refusal comes after its own end (TLS 1.3).
  void shake_hands();
  int sockets[2] = {-1, -1};
  std::unique_ptr<Channel> server, client;
  Io server_io = Io::want_read, client_io = Io::want_read;
};

}  // namespace zaris::tls
