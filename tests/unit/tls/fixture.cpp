#include "fixture.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace zaris::tls {

Directory::Directory() {
  std::string name = (std::filesystem::temp_directory_path() / "tls-test.XXXXXX").string();
  path = ::mkdtemp(name.data());
}
Directory::~Directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void write_file(const std::string& path, const std::string& content) { std::ofstream(path, std::ios::binary | std::ios::trunc) << content; }
std::string read_file(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void make_set(const std::string& directory, std::vector<std::string> alt_names, std::vector<DevClient> clients, std::uint32_t days) {
  DevCaRequest request;
  request.directory = directory;
  request.servers = {{"server", std::move(alt_names)}};
  request.clients = std::move(clients);
  request.days = days;
  const auto made = make_dev_ca(request);
  ASSERT_TRUE(made) << made.error().text();
}

std::shared_ptr<Context> server_of(const Directory& d, ClientAuth auth, const std::string& name) {
  auto context = Context::server({d.file(name + ".crt"), d.file(name + ".key"), d.file("ca.crt"), auth, MinVersion::tls13});
  EXPECT_TRUE(context) << context.error().text();
  return context ? *context : nullptr;
}
std::shared_ptr<Context> client_of(const Directory& d, const std::string& name) {
  const bool none = name.empty();
  auto context = Context::client({d.file("ca.crt"), none ? "" : d.file(name + ".crt"), none ? "" : d.file(name + ".key"), MinVersion::tls13, false});
  EXPECT_TRUE(context) << context.error().text();
  return context ? *context : nullptr;
}

Pair::Pair(const Context* s, const Context* c, const std::string& host) {
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  server = Channel::accept(s, sockets[0]);
  auto dialled = Channel::connect(c, sockets[1], host);
  EXPECT_TRUE(dialled);
  client = std::move(*dialled);
}
Pair::~Pair() {
  server.reset();
  client.reset();
  ::close(sockets[0]);
  ::close(sockets[1]);
}
void Pair::shake_hands() {
  const auto going = [](Io io) { return io == Io::want_read || io == Io::want_write; };
  for (int i = 0; i < 20 && (going(server_io) || going(client_io)); ++i) {
    if (going(client_io)) client_io = client->handshake();
    if (going(server_io)) server_io = server->handshake();
  }
  if (client_io == Io::ok && server_io != Io::ok) {
    char byte = 0;
    std::size_t got = 0;
    client_io = client->read(&byte, 1, got);
  }
}

}  // namespace zaris::tls
