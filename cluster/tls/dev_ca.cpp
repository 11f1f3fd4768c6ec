#include "cluster/tls/dev_ca.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cluster/tls/openssl.hpp"

namespace zaris::tls {
namespace {

constexpr long day_s = 86400;

tl::unexpected<Error> failed(std::string what) { return failure("tls_dev_ca_failed", std::move(what), "choose a directory that you may write to"); }

struct Pair { X509Ptr certificate; PkeyPtr key; };

Result<void> write_whole(const std::string& path, std::string_view content, mode_t mode) {
  const std::string draft = path + ".new";
  const int fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return failed(fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
  ::fchmod(fd, mode);
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  ::close(fd);
  if (done != content.size() || ::rename(draft.c_str(), path.c_str()) != 0) {
    const int e = errno;
    ::unlink(draft.c_str());
    return failed(fmt::format("{} cannot be written: {}", path, std::strerror(e)));
  }
  return {};
}

std::string pem_of(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}
std::string pem_of(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

bool add_extension(X509* to, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return false;
  const bool ok = X509_add_ext(to, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return ok;
}

// `issuer` empty: signs itself.
Result<Pair> issue(const std::string& common_name, const Pair* issuer, const std::string& alt_names, bool server, std::uint32_t days) {
  Pair out;
  out.key.reset(EVP_EC_gen("P-256"));
  out.certificate.reset(X509_new());
  if (!out.key || !out.certificate) return failed("a key cannot be made: " + openssl_reason());
  X509* x = out.certificate.get();
  X509_set_version(x, X509_VERSION_3);
  unsigned char serial[16];
  RAND_bytes(serial, sizeof serial);
  serial[0] &= 0x7f;
  BIGNUM* number = BN_bin2bn(serial, sizeof serial, nullptr);
  BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x));
  BN_free(number);
  // An hour back, so that a machine whose clock is a little behind accepts it at once.
  X509_gmtime_adj(X509_getm_notBefore(x), days == 0 ? -2 * day_s : -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), days == 0 ? -day_s : day_s * static_cast<long>(days));
  X509_set_pubkey(x, out.key.get());
  X509_NAME* name = X509_get_subject_name(x);
  bool ok = X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common_name.data()),
                                       static_cast<int>(common_name.size()), -1, 0) == 1;
  X509* signer = issuer == nullptr ? x : issuer->certificate.get();
  ok = ok && X509_set_issuer_name(x, X509_get_subject_name(signer)) == 1;
  if (issuer == nullptr) {
    ok = ok && add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE") && add_extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") &&
         add_extension(x, x, NID_subject_key_identifier, "hash");
  } else {
    ok = ok && add_extension(x, signer, NID_basic_constraints, "critical,CA:FALSE") && add_extension(x, signer, NID_key_usage, "critical,digitalSignature") &&
         add_extension(x, signer, NID_ext_key_usage, server ? "serverAuth,clientAuth" : "clientAuth") &&
         add_extension(x, signer, NID_subject_key_identifier, "hash") && add_extension(x, signer, NID_authority_key_identifier, "keyid:always");
    if (!alt_names.empty()) ok = ok && add_extension(x, signer, NID_subject_alt_name, alt_names);
  }
  ok = ok && X509_sign(x, issuer == nullptr ? out.key.get() : issuer->key.get(), EVP_sha256()) > 0;
  if (!ok) return failed(fmt::format("certificate for '{}' cannot be made: {}", printable(common_name), openssl_reason()));
  return out;
}

std::string alt_name_list(const DevServer& server) {
  std::vector<std::string> names{"localhost", "127.0.0.1", "::1", server.name};
  names.insert(names.end(), server.alt_names.begin(), server.alt_names.end());
  std::vector<std::string> seen;
  std::string out;
  for (const auto& n : names) {
    // A comma or a colon in front would be read as another entry.
    if (n.empty() || n.find_first_of(", \t\n") != std::string::npos || std::find(seen.begin(), seen.end(), n) != seen.end()) continue;
    seen.push_back(n);
    in6_addr address{};
    const bool is_address = ::inet_pton(AF_INET, n.c_str(), &address) == 1 || ::inet_pton(AF_INET6, n.c_str(), &address) == 1;
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", is_address ? "IP" : "DNS", n);
  }
  return out;
}

Result<Pair> existing_ca(const std::string& crt, const std::string& key) {
  Pair out;
  const BioPtr c(BIO_new_file(crt.c_str(), "r")), k(BIO_new_file(key.c_str(), "r"));
  if (c) out.certificate.reset(PEM_read_bio_X509(c.get(), nullptr, nullptr, nullptr));
  if (k) out.key.reset(PEM_read_bio_PrivateKey(k.get(), nullptr, nullptr, nullptr));
  if (!out.certificate || !out.key || X509_check_private_key(out.certificate.get(), out.key.get()) != 1) {
    ERR_clear_error();
    return failed(fmt::format("{} and {} are not a CA made here", crt, key));
  }
  return out;
}

}  // namespace

Result<std::vector<std::string>> make_dev_ca(const DevCaRequest& request) {
  std::vector<std::string> written;
  std::error_code ec;
  std::filesystem::create_directories(request.directory, ec);
  if (ec) return failed(fmt::format("directory {} cannot be made: {}", request.directory, ec.message()));
  const auto path = [&](const std::string& file) { return (std::filesystem::path(request.directory) / file).string(); };
  const auto save = [&](const std::string& name, const Pair& pair) -> Result<void> {
    // The key first: a certificate without its key is never seen.
    if (auto r = write_whole(path(name + ".key"), pem_of(pair.key.get()), 0600); !r) return r;
    if (auto r = write_whole(path(name + ".crt"), pem_of(pair.certificate.get()), 0644); !r) return r;
    written.push_back(path(name + ".crt"));
    written.push_back(path(name + ".key"));
    return {};
  };
  const auto usable_name = [](const std::string& name) {
    return !name.empty() && name != "ca" && name.size() <= 64 && name.find('/') == std::string::npos && name[0] != '.';
  };

  const bool keep = std::filesystem::exists(path("ca.crt"), ec) && std::filesystem::exists(path("ca.key"), ec);
  auto ca = keep ? existing_ca(path("ca.crt"), path("ca.key")) : issue("Zaris development CA", nullptr, {}, false, std::max(request.days, 365u));
  if (!ca) return tl::unexpected(ca.error());
  if (!keep) {
    if (auto r = save("ca", *ca); !r) return tl::unexpected(r.error());
  }
  for (const auto& server : request.servers) {
    if (!usable_name(server.name)) return failed(fmt::format("'{}' cannot be the name of a certificate", printable(server.name)));
    auto pair = issue(server.name, &*ca, alt_name_list(server), true, request.days);
    if (!pair) return tl::unexpected(pair.error());
    if (auto r = save(server.name, *pair); !r) return tl::unexpected(r.error());
  }
  for (const auto& client : request.clients) {
    if (!usable_name(client.name)) return failed(fmt::format("'{}' cannot be the name of a certificate", printable(client.name)));
    auto pair = issue(client.subject.empty() ? client.name : client.subject, &*ca, {}, false, request.days);
    if (!pair) return tl::unexpected(pair.error());
    if (auto r = save(client.name, *pair); !r) return tl::unexpected(r.error());
  }
  return written;
}

}  // namespace zaris::tls
