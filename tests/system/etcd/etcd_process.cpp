#include "etcd_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "cluster/tls/dev_ca.hpp"

namespace zaris::etcd {
namespace {

// Two that are free now, taken at once so that they differ.
std::vector<std::uint16_t> free_ports(std::size_t count) {
  std::vector<int> sockets;
  std::vector<std::uint16_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&at), size), 0);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);
    sockets.push_back(fd);
    out.push_back(ntohs(at.sin_port));
  }
  for (const int fd : sockets) ::close(fd);
  return out;
}

pid_t spawn(const std::vector<std::string>& command, const std::string& log) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whatever happens to the test, it leaves nothing behind
  if (::getppid() != parent) ::_exit(1);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, 1);
  ::dup2(out, 2);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  ::_exit(127);
}

std::string tail(const std::string& path) {
  std::ifstream in(path);
  std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return all.substr(all.size() > 2000 ? all.size() - 2000 : 0);
}

void run(const std::vector<std::string>& command, const std::string& log) {
  const pid_t pid = spawn(command, log);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0) << command.at(0) << "\n" << tail(log);
}

}  // namespace

EtcdProcess::EtcdProcess(EtcdProcessOptions options) : EtcdProcess(std::move(options), Member{"default", {}}, 0, 0) {
  start();
  if (options_.tls) {
    // Before there are users nobody needs a password; afterwards the client's own login is what makes it ready.
    enable_users();
  }
  wait_ready();
}

EtcdProcess::EtcdProcess(EtcdProcessOptions options, Member member, std::uint16_t client_port, std::uint16_t peer_port) : options_(std::move(options)), member_(std::move(member)) {
  std::string name = (std::filesystem::temp_directory_path() / "etcd-test.XXXXXX").string();
  folder_ = ::mkdtemp(name.data());
  if (client_port == 0) {
    const auto ports = free_ports(2);
    client_port = ports[0];
    peer_port = ports[1];
  }
  url_ = fmt::format("{}://127.0.0.1:{}", options_.tls ? "https" : "http", client_port);
  peer_url_ = fmt::format("http://127.0.0.1:{}", peer_port);
  if (member_.peers.empty()) member_.peers = member_.name + "=" + peer_url_;
  if (options_.tls) {
    tls::DevCaRequest request;
    request.directory = folder_;
    request.clients = {{"named", ""}};
    EXPECT_TRUE(tls::make_dev_ca(request));
    // With users etcd's gateway takes no certificate with a common name, and the development CA makes no other.
    run({"openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", file("node.key"), "-out", file("node.csr"), "-subj", "/O=zaris"}, file("openssl.log"));
    std::ofstream(file("client.ext")) << "extendedKeyUsage = clientAuth\n";
    run({"openssl", "x509", "-req", "-in", file("node.csr"), "-CA", file("ca.crt"), "-CAkey", file("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", file("client.ext"), "-out", file("node.crt")}, file("openssl.log"));
    request.directory = folder_ + "/foreign";
    EXPECT_TRUE(tls::make_dev_ca(request));
  }
}

std::vector<std::unique_ptr<EtcdProcess>> EtcdProcess::members(std::size_t count) {
  const auto ports = free_ports(2 * count);
  std::string peers;
  for (std::size_t i = 0; i < count; ++i) peers += fmt::format("{}m{}=http://127.0.0.1:{}", i == 0 ? "" : ",", i, ports[2 * i + 1]);
  std::vector<std::unique_ptr<EtcdProcess>> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(std::unique_ptr<EtcdProcess>(new EtcdProcess({}, Member{fmt::format("m{}", i), peers}, ports[2 * i], ports[2 * i + 1])));
  for (const auto& member : out) member->start();
  for (const auto& member : out) member->wait_ready();
  return out;
}

EtcdProcess::~EtcdProcess() {
  kill();
  std::filesystem::remove_all(folder_);
}

void EtcdProcess::start() {
  std::vector<std::string> command{"env", "-i", fmt::format("PATH={}", ::getenv("PATH") == nullptr ? "/usr/bin:/bin" : ::getenv("PATH")), "etcd", "--name", member_.name, "--data-dir", file("data"),
                                   "--listen-client-urls", url_, "--advertise-client-urls", url_, "--listen-peer-urls", peer_url_, "--initial-advertise-peer-urls", peer_url_,
                                   "--initial-cluster", member_.peers};
  if (options_.tls) {
    for (const std::string& argument : {std::string("--cert-file"), file("server.crt"), std::string("--key-file"), file("server.key"), std::string("--trusted-ca-file"), file("ca.crt"), std::string("--client-cert-auth")})
      command.push_back(argument);
  }
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  pid_ = spawn(command, file("log"));
}

HttpEtcdOptions EtcdProcess::client_options() const {
  HttpEtcdOptions out;
  out.endpoints = {url_};
  if (options_.tls) {
    out.tls = tls::Context::client({file("ca.crt"), file("node.crt"), file("node.key"), tls::MinVersion::tls12, false}).value();
    out.user = "zaris";
    out.password = "secret";
  }
  return out;
}

void EtcdProcess::wait_ready() const {
  const auto etcd = open_http_etcd(client_options()).value();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  RangeAnswer last;
  while (std::chrono::steady_clock::now() < until) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WNOHANG), 0) << "etcd ended; is etcd-server installed?\n" << tail(file("log"));
    std::promise<RangeAnswer> answer;
    etcd->range(RangeRequest{Keys::one("/zaris/ready")}, Timeout(1000), [&](RangeAnswer with) { answer.set_value(std::move(with)); });
    last = answer.get_future().get();
    if (last.ok()) return;
    std::promise<void> never;  // a breath between two questions
    never.get_future().wait_for(std::chrono::milliseconds(20));
  }
  FAIL() << last.error.text() << "\n" << tail(file("log"));
}

void EtcdProcess::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}
void EtcdProcess::freeze() const { ::kill(pid_, SIGSTOP); }
void EtcdProcess::thaw() const { ::kill(pid_, SIGCONT); }

void EtcdProcess::etcdctl(std::vector<std::string> arguments) const {
  std::vector<std::string> command{"env", "ETCDCTL_API=3", "etcdctl", "--endpoints", url_, "--dial-timeout", "30s", "--command-timeout", "30s"};
  if (options_.tls)
    for (const std::string& argument : {std::string("--cacert"), file("ca.crt"), std::string("--cert"), file("node.crt"), std::string("--key"), file("node.key")}) command.push_back(argument);
  command.insert(command.end(), arguments.begin(), arguments.end());
  run(command, file("etcdctl.log"));
}

void EtcdProcess::enable_users() const {
  etcdctl({"user", "add", "root:root"});
  etcdctl({"user", "grant-role", "root", "root"});
  etcdctl({"role", "add", "zaris"});
  etcdctl({"role", "grant-permission", "zaris", "--prefix=true", "readwrite", "/zaris/"});
  etcdctl({"user", "add", "zaris:secret"});
  etcdctl({"user", "grant-role", "zaris", "zaris"});
  etcdctl({"auth", "enable"});
}

}  // namespace zaris::etcd
