// An etcd of a test's own: ports of 127.0.0.1, a data directory under the temporary folder, signals by its own process id.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "cluster/etcd/http_etcd.hpp"

namespace zaris::etcd {

struct EtcdProcessOptions {
  bool tls = false;                       // client certificates demanded, users on: "zaris" may do all under /zaris/
  std::vector<std::string> arguments;
};

class EtcdProcess {
 public:
  explicit EtcdProcess(EtcdProcessOptions options = {});
  // Some that are one etcd.
  [[nodiscard]] static std::vector<std::unique_ptr<EtcdProcess>> members(std::size_t count);
  ~EtcdProcess();
  EtcdProcess(const EtcdProcess&) = delete;
  EtcdProcess& operator=(const EtcdProcess&) = delete;

  void start();                           // with the data that it had
  void wait_ready() const;                // until it serves a linearizable read
  void kill();                            // SIGKILL, and waits for its end
  void freeze() const;                    // SIGSTOP
  void thaw() const;                      // SIGCONT

  [[nodiscard]] const std::string& url() const { return url_; }
  // What a client of it needs; with TLS, certificate and user included.
  [[nodiscard]] HttpEtcdOptions client_options() const;
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void etcdctl(std::vector<std::string> arguments) const;

 private:
  struct Member { std::string name, peers; };
  EtcdProcess(EtcdProcessOptions options, Member member, std::uint16_t client_port, std::uint16_t peer_port);
  void enable_users() const;

  EtcdProcessOptions options_;
  Member member_;
  std::string folder_, url_, peer_url_;
  pid_t pid_ = -1;
};

}  // namespace zaris::etcd
