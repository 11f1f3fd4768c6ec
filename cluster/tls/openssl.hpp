// Owners of OpenSSL objects. Included by this folder's .cpp files only.
#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "cluster/tls/context.hpp"

namespace zaris::tls {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* p) const { Free(p); }
};
using BioPtr = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using X509Ptr = std::unique_ptr<X509, Freer<X509_free>>;
using PkeyPtr = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using CtxPtr = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using SslPtr = std::unique_ptr<SSL, Freer<SSL_free>>;

[[nodiscard]] CertificateInfo describe(X509* certificate);
// The newest reason in the thread's error queue, as text; empties the queue.
[[nodiscard]] std::string openssl_reason();

}  // namespace zaris::tls
