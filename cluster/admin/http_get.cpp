// The smallest HTTP client: `--probe` asks the process beside it, and needs nothing else for that.
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "cluster/admin/admin_server.hpp"

namespace zaris::admin {

Result<HttpAnswer> http_get(const std::string& address, const std::string& path, int timeout_ms) {
  const auto fail = [&](std::string_view why) { return failure("unreachable", fmt::format("http://{}{}: {}", address, path, why), "is the process running, and is that its listeners.admin.address?"); };
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return fail("not host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found); rc != 0) return fail(::gai_strerror(rc));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freed(found, ::freeaddrinfo);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } socket{::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (socket.fd < 0) return fail(std::strerror(errno));
  const auto wait = [&](short events) {
    pollfd p{socket.fd, events, 0};
    return ::poll(&p, 1, timeout_ms) == 1;
  };
  if (::connect(socket.fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) return fail(std::strerror(errno));
  if (!wait(POLLOUT)) return fail("timed out");
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return fail(std::strerror(error));
  const std::string request = fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", path, address);
  if (::send(socket.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return fail(std::strerror(errno));
  std::string text;
  char bytes[8192];
  while (text.size() < (16u << 20)) {
    if (!wait(POLLIN)) return fail("timed out");
    const ssize_t n = ::recv(socket.fd, bytes, sizeof bytes, 0);
    if (n < 0) return fail(std::strerror(errno));
    if (n == 0) break;
    text.append(bytes, static_cast<std::size_t>(n));
  }
  HttpAnswer answer;
  const auto end = text.find("\r\n\r\n");
  if (end == std::string::npos || text.size() < 12 || std::from_chars(text.data() + 9, text.data() + 12, answer.status).ec != std::errc{}) return fail("not an HTTP answer");
  answer.body = text.substr(end + 4);
  return answer;
}

}  // namespace zaris::admin
