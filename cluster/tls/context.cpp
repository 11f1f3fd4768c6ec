#include "cluster/tls/context.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "cluster/tls/openssl.hpp"

namespace zaris::tls {
namespace {

constexpr std::size_t file_bytes_max = 4u << 20;  // the system's bundle is 220 KiB

struct Files { std::string ca, cert, key; };      // contents

Result<std::string> read_file(const std::string& path, const char* code, const char* what) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int e = errno;
    return failure(code, fmt::format("{} {} cannot be opened: {}", what, path, std::strerror(e)),
                   e == ENOENT ? "check the path; `zaris tls dev-ca` makes a set for development"
                               : "let the user that runs the process read it");
  }
  std::string out;
  char part[16384];
  ssize_t n = 0;
  while ((n = ::read(fd, part, sizeof part)) > 0 && out.size() <= file_bytes_max) out.append(part, static_cast<std::size_t>(n));
  const int e = errno;
  ::close(fd);
  if (n < 0) return failure(code, fmt::format("{} {} cannot be read: {}", what, path, std::strerror(e)));
  if (out.size() > file_bytes_max) return failure(code, fmt::format("{} {} is larger than 4 MiB", what, path), "name a PEM file");
  return out;
}

Result<std::vector<X509Ptr>> parse_certificates(const std::string& pem, const std::string& path, const char* code, const char* what) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<X509Ptr> out;
  ERR_clear_error();
  while (X509* x = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) out.emplace_back(x);
  const unsigned long last = ERR_peek_last_error();
  const bool clean_end = ERR_GET_LIB(last) == ERR_LIB_PEM && ERR_GET_REASON(last) == PEM_R_NO_START_LINE;
  if (out.empty() || !clean_end) {
    const std::string why = clean_end ? std::string("it holds no certificate") : openssl_reason();
    ERR_clear_error();
    return failure(code, fmt::format("{} {} is not a complete PEM file: {}", what, path, why),
                   "it may be half written: write it beside the old one and rename it");
  }
  ERR_clear_error();
  return out;
}

std::int64_t unix_seconds(const ASN1_TIME* t) {
  std::tm tm{};
  if (t == nullptr || ASN1_TIME_to_tm(t, &tm) != 1) return 0;
  return static_cast<std::int64_t>(::timegm(&tm));
}

int no_passphrase(char*, int, int, void*) { return 0; }

// What one load of the files made.
struct Loaded {
  CtxPtr ctx;
  std::string hash;
  std::vector<CertificateInfo> chain;
  Validity validity;
};

std::string content_hash(const Files& files) {
  std::string all = fmt::format("{}:{}:{}:", files.ca.size(), files.cert.size(), files.key.size()) + files.ca + files.cert + files.key;
  unsigned char md[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(all.data(), all.size(), md, &size, EVP_sha256(), nullptr);
  OPENSSL_cleanse(all.data(), all.size());
  return {reinterpret_cast<char*>(md), size};
}

void note_validity(const std::vector<X509Ptr>& certificates, std::int64_t& not_before, std::int64_t& not_after) {
  for (const auto& c : certificates) {
    const auto info = describe(c.get());
    not_before = std::max(not_before, info.not_before_s);
    not_after = not_after == 0 ? info.not_after_s : std::min(not_after, info.not_after_s);
  }
}

Result<void> use_pair(Loaded& out, const Files& files, const std::string& cert_path, const std::string& key_path) {
  auto chain = parse_certificates(files.cert, cert_path, "tls_cert_invalid", "certificate");
  if (!chain) return tl::unexpected(chain.error());
  const BioPtr bio(BIO_new_mem_buf(files.key.data(), static_cast<int>(files.key.size())));
  const PkeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  if (!key) {
    return failure("tls_key_invalid", fmt::format("private key {} is not a complete unencrypted PEM key: {}", key_path, openssl_reason()),
                   "keys with a passphrase are not supported; protect the file by its mode (0600)");
  }
  X509* leaf = chain->front().get();
  if (X509_check_private_key(leaf, key.get()) != 1) {
    ERR_clear_error();
    return failure("tls_key_mismatch", fmt::format("private key {} does not belong to certificate {}", key_path, cert_path),
                   "both files must come from the same request; the certificate must be the first in its file");
  }
  note_validity(*chain, out.validity.leaf_not_before_s, out.validity.leaf_not_after_s);
  for (const auto& c : *chain) out.chain.push_back(describe(c.get()));
  if (X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0) {
    return failure("tls_cert_expired", fmt::format("certificate {} ({}) is past its end", cert_path, out.chain.front().subject), "renew it");
  }
  bool ok = SSL_CTX_use_certificate(out.ctx.get(), leaf) == 1 && SSL_CTX_use_PrivateKey(out.ctx.get(), key.get()) == 1;
  for (std::size_t i = 1; ok && i < chain->size(); ++i) ok = SSL_CTX_add1_chain_cert(out.ctx.get(), (*chain)[i].get()) == 1;
  if (!ok) return failure("tls_cert_invalid", fmt::format("certificate {} was refused: {}", cert_path, openssl_reason()));
  return {};
}

Result<void> use_ca(Loaded& out, const Files& files, const std::string& path, bool server) {
  auto bundle = parse_certificates(files.ca, path, "tls_ca_invalid", "CA file");
  if (!bundle) return tl::unexpected(bundle.error());
  note_validity(*bundle, out.validity.ca_not_before_s, out.validity.ca_not_after_s);
  X509_STORE* store = SSL_CTX_get_cert_store(out.ctx.get());
  for (const auto& c : *bundle) {
    if (X509_STORE_add_cert(store, c.get()) != 1) {
      return failure("tls_ca_invalid", fmt::format("CA file {} was refused: {}", path, openssl_reason()));
    }
    if (server) SSL_CTX_add_client_CA(out.ctx.get(), c.get());
  }
  return {};
}

CtxPtr new_ctx(bool server, MinVersion min) {
  CtxPtr ctx(SSL_CTX_new(server ? TLS_server_method() : TLS_client_method()));
  SSL_CTX_set_min_proto_version(ctx.get(), min == MinVersion::tls13 ? TLS1_3_VERSION : TLS1_2_VERSION);
  // The bulk of a feed is bound by the cipher; 128 bits of GCM cost least where the processor has AES.
  SSL_CTX_set_ciphersuites(ctx.get(), "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_options(ctx.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Idle sessions hold no record buffers; a partly written buffer may move and be called again with more behind it.
  SSL_CTX_set_mode(ctx.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A peer that goes away without close_notify is told apart by the protocol above, not by TLS.
  SSL_CTX_set_options(ctx.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  // No resumption: a resumed session would outlive the certificate it was opened with.
  SSL_CTX_set_session_cache_mode(ctx.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(ctx.get(), 0);
  SSL_CTX_set_options(ctx.get(), SSL_OP_NO_TICKET);
  return ctx;
}

class FileContext final : public Context {
 public:
  FileContext(ServerOptions s, ClientOptions c, bool server) : server_options_(std::move(s)), client_options_(std::move(c)), server_(server) {}

  Result<void> load_first() {
    auto loaded = load({});
    if (!loaded) return tl::unexpected(loaded.error());
    current_ = std::move(*loaded);
    return {};
  }

  Result<bool> reload() override {
    std::string before;
    {
      const std::lock_guard lock(mutex_);
      before = current_.hash;
    }
    auto loaded = load(before);
    if (!loaded) return tl::unexpected(loaded.error());
    if (!loaded->ctx) return false;
    const std::lock_guard lock(mutex_);
    current_ = std::move(*loaded);
    return true;
  }

  std::vector<CertificateInfo> chain() const override {
    const std::lock_guard lock(mutex_);
    return current_.chain;
  }
  Validity validity() const override {
    const std::lock_guard lock(mutex_);
    return current_.validity;
  }
  bool is_server() const override { return server_; }
  bool verifies_peer() const override {
    return server_ ? server_options_.client_auth == ClientAuth::required : !client_options_.insecure_skip_verify;
  }
  void* native_handle() const override {
    const std::lock_guard lock(mutex_);
    SSL_CTX_up_ref(current_.ctx.get());
    return current_.ctx.get();
  }

 private:
  // Without `ctx` in the answer: the content is what `known_hash` says.
  Result<Loaded> load(const std::string& known_hash) const {
    const auto& cert_path = server_ ? server_options_.cert_file : client_options_.cert_file;
    const auto& key_path = server_ ? server_options_.key_file : client_options_.key_file;
    const auto& ca_path = server_ ? server_options_.ca_file : client_options_.ca_file;
    if (cert_path.empty() != key_path.empty()) {
      return failure("tls_options_invalid", "a certificate needs its key and a key its certificate", "give both files");
    }
    if (server_ && cert_path.empty()) return failure("tls_options_invalid", "a TLS listener needs a certificate and a key", "`zaris tls dev-ca` makes a set for development");
    if (server_ && server_options_.client_auth == ClientAuth::required && ca_path.empty()) {
      return failure("tls_options_invalid", "client certificates are demanded, and no CA file says which are good", "set the listener's CA file");
    }
    Files files;
    const auto take = [](std::string& to, const std::string& path, const char* code, const char* what) -> Result<void> {
      if (path.empty()) return {};
      auto read = read_file(path, code, what);
      if (!read) return tl::unexpected(read.error());
      to = std::move(*read);
      return {};
    };
    if (auto r = take(files.ca, ca_path, "tls_ca_unreadable", "CA file"); !r) return tl::unexpected(r.error());
    if (auto r = take(files.cert, cert_path, "tls_cert_unreadable", "certificate"); !r) return tl::unexpected(r.error());
    if (auto r = take(files.key, key_path, "tls_key_unreadable", "private key"); !r) return tl::unexpected(r.error());

    Loaded out;
    out.hash = content_hash(files);
    if (out.hash == known_hash) return out;
    out.ctx = new_ctx(server_, server_ ? server_options_.min_version : client_options_.min_version);
    if (!cert_path.empty()) {
      const auto r = use_pair(out, files, cert_path, key_path);
      OPENSSL_cleanse(files.key.data(), files.key.size());
      if (!r) return tl::unexpected(r.error());
    }
    if (!ca_path.empty()) {
      if (auto r = use_ca(out, files, ca_path, server_); !r) return tl::unexpected(r.error());
    } else if (!server_ && !client_options_.insecure_skip_verify) {
      SSL_CTX_set_default_verify_paths(out.ctx.get());
    }
    if (server_) {
      SSL_CTX_set_verify(out.ctx.get(), server_options_.client_auth == ClientAuth::required ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE, nullptr);
    } else {
      SSL_CTX_set_verify(out.ctx.get(), client_options_.insecure_skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    }
    return out;
  }

  const ServerOptions server_options_;
  const ClientOptions client_options_;
  const bool server_;
  mutable std::mutex mutex_;
  Loaded current_;
};

Result<std::shared_ptr<Context>> make(ServerOptions s, ClientOptions c, bool server) {
  auto context = std::make_shared<FileContext>(std::move(s), std::move(c), server);
  if (auto r = context->load_first(); !r) return tl::unexpected(r.error());
  return std::shared_ptr<Context>(std::move(context));
}

}  // namespace

CertificateInfo describe(X509* certificate) {
  CertificateInfo out;
  X509_NAME* subject = X509_get_subject_name(certificate);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), subject, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  if (size > 0) out.subject.assign(text, static_cast<std::size_t>(size));
  if (const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1); at >= 0) {
    unsigned char* utf8 = nullptr;
    const int n = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (n >= 0) {
      out.common_name.assign(reinterpret_cast<char*>(utf8), static_cast<std::size_t>(n));
      OPENSSL_free(utf8);
    }
  }
  if (BIGNUM* serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr)) {
    if (char* hex = BN_bn2hex(serial)) {
      out.serial = hex;
      OPENSSL_free(hex);
    }
    BN_free(serial);
  }
  if (auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr))) {
    for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
      const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
      if (name->type != GEN_DNS && name->type != GEN_URI) continue;
      const ASN1_IA5STRING* ia5 = name->type == GEN_DNS ? name->d.dNSName : name->d.uniformResourceIdentifier;
      out.names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(ia5)), static_cast<std::size_t>(ASN1_STRING_length(ia5)));
    }
    GENERAL_NAMES_free(names);
  }
  out.not_before_s = unix_seconds(X509_get0_notBefore(certificate));
  out.not_after_s = unix_seconds(X509_get0_notAfter(certificate));
  return out;
}

Result<std::shared_ptr<Context>> Context::server(ServerOptions options) { return make(std::move(options), {}, true); }
Result<std::shared_ptr<Context>> Context::client(ClientOptions options) { return make({}, std::move(options), false); }

}  // namespace zaris::tls
