// TLS settings of one listener or one dialler: certificates, what the other side must show, protocol versions; loaded
// from files, loaded again without a restart and without dropping sessions. Design page security.
//
// No OpenSSL type appears here: `native_handle` is an SSL_CTX*. Every method may be called from any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cluster/base/result.hpp"

namespace zaris::tls {

enum class ClientAuth : std::uint8_t { off, required };
enum class MinVersion : std::uint8_t { tls12, tls13 };

struct ServerOptions {
  std::string cert_file;                 // PEM: the leaf, then its chain
  std::string key_file;                  // PEM, not encrypted
  std::string ca_file;                   // PEM bundle that client certificates must lead to; needed with `required`
  ClientAuth client_auth = ClientAuth::off;
  MinVersion min_version = MinVersion::tls12;
};

struct ClientOptions {
  std::string ca_file;                   // PEM bundle; empty: the system's
  std::string cert_file, key_file;       // both or neither
  MinVersion min_version = MinVersion::tls12;
  bool insecure_skip_verify = false;     // neither chain nor name is checked: only by a word that says so
};

// What a certificate says of itself. Times are Unix seconds.
struct CertificateInfo {
  std::string subject;                   // RFC 2253 text: "CN=follower-b,O=Example"
  std::string common_name;
  std::string serial;                    // hex
  std::vector<std::string> names;        // DNS and URI names
  std::int64_t not_before_s = 0, not_after_s = 0;
};

// For zaris_tls_certificate_not_{after,before}_timestamp_seconds{kind}: the earliest end and the latest beginning of
// the chain (leaf) and of the bundle (ca). 0: there is none.
struct Validity {
  std::int64_t leaf_not_before_s = 0, leaf_not_after_s = 0, ca_not_before_s = 0, ca_not_after_s = 0;
};

class Context {
 public:
  // Errors, each naming the file: tls_ca_unreadable, tls_ca_invalid, tls_cert_unreadable, tls_cert_invalid,
  // tls_cert_expired, tls_key_unreadable, tls_key_invalid, tls_key_mismatch, tls_options_invalid.
  [[nodiscard]] static Result<std::shared_ptr<Context>> server(ServerOptions options);
  [[nodiscard]] static Result<std::shared_ptr<Context>> client(ClientOptions options);
  virtual ~Context() = default;

  // Reads the files again. True: their content had changed and is in use for sessions from now on; false: unchanged.
  // An error (half-written, another key, expired) keeps what was in use. Sessions that are open keep theirs.
  [[nodiscard]] virtual Result<bool> reload() = 0;

  [[nodiscard]] virtual std::vector<CertificateInfo> chain() const = 0;   // leaf first; empty for a client without one
  [[nodiscard]] virtual Validity validity() const = 0;
  [[nodiscard]] virtual bool is_server() const = 0;
  [[nodiscard]] virtual bool verifies_peer() const = 0;

  // SSL_CTX* as it is now. The caller owns one reference of its own (SSL_CTX_free; asio::ssl::context takes it over).
  [[nodiscard]] virtual void* native_handle() const = 0;
};

// For a client's SSL* before the handshake: the server must prove to be `host` (a name, an IPv4 or an IPv6 address, without
// brackets); sets SNI for names. Error: tls_options_invalid (not a name).
[[nodiscard]] Result<void> expect_server(void* ssl, const std::string& host);

// Who is at the other end of an SSL* after its handshake. Empty subject: showed no certificate.
struct Peer {
  std::string subject;                   // RFC 2253
  std::string common_name;
  std::vector<std::string> names;        // DNS and URI names of the certificate
  std::int64_t not_after_s = 0;
};
[[nodiscard]] Peer peer_of(void* ssl);

// What went wrong with a handshake, a read or a write on this SSL*: empties the thread's OpenSSL error queue.
// Codes: tls_unknown_ca, tls_name_mismatch, tls_cert_expired, tls_no_client_cert, tls_client_cert_refused, tls_not_tls,
// tls_version, tls_handshake_failed, tls_broken. `host` is who was expected, for the text.
[[nodiscard]] Error explain_failure(void* ssl, bool server, const std::string& host);

}  // namespace zaris::tls
