// Who is at the other end, who should be, and what a failed handshake means in words.
#include <arpa/inet.h>
#include <fmt/format.h>

#include "cluster/tls/openssl.hpp"

namespace zaris::tls {

std::string openssl_reason() {
  const unsigned long e = ERR_peek_last_error();
  const char* reason = e == 0 ? nullptr : ERR_reason_error_string(e);
  std::string out = reason == nullptr ? "no reason given" : reason;
  ERR_clear_error();
  return out;
}

Result<void> expect_server(void* handle, const std::string& host) {
  SSL* ssl = static_cast<SSL*>(handle);
  in6_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1 || ::inet_pton(AF_INET6, host.c_str(), &address) == 1) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1) return {};
  } else if (!host.empty() && host.size() <= 253) {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1) return {};
  }
  ERR_clear_error();
  return failure("tls_options_invalid", fmt::format("'{}' is neither a host name nor an address", printable(host)));
}

Peer peer_of(void* handle) {
  Peer out;
  X509* certificate = SSL_get0_peer_certificate(static_cast<SSL*>(handle));
  if (certificate == nullptr) return out;
  auto info = describe(certificate);
  out.subject = std::move(info.subject);
  out.common_name = std::move(info.common_name);
  out.not_after_s = info.not_after_s;
  out.names = std::move(info.names);
  return out;
}

namespace {

Error from_verification(long result, bool server, const std::string& host) {
  const std::string why = X509_verify_cert_error_string(result);
  const std::string who = server ? "the client's certificate" : fmt::format("the certificate of {}", host);
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return {"tls_name_mismatch", fmt::format("{} is for another name", who), "dial the name that the certificate carries, or issue one for this name"};
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {"tls_cert_expired", fmt::format("{} is past its end", who), "renew it"};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {"tls_cert_expired", fmt::format("{} is not valid yet", who), "compare the clocks of both machines"};
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return {"tls_unknown_ca", fmt::format("{} does not lead to a known CA ({})", who, why), "name the CA file that issued it"};
    default:
      return {server ? "tls_client_cert_refused" : "tls_handshake_failed", fmt::format("{} was refused: {}", who, why), {}};
  }
}

}  // namespace

Error explain_failure(void* handle, bool server, const std::string& host) {
  SSL* ssl = static_cast<SSL*>(handle);
  const unsigned long e = ERR_peek_last_error();
  const int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
  const long verified = SSL_get_verify_result(ssl);
  const bool handshaking = SSL_is_init_finished(ssl) == 0;
  switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
      ERR_clear_error();
      return from_verification(verified, server, host);
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      ERR_clear_error();
      return {"tls_no_client_cert", "the client showed no certificate, and one is demanded", "give the client a certificate and its key"};
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      ERR_clear_error();
      return {"tls_no_client_cert", fmt::format("{} demands a client certificate", server ? "the client" : host), "set certificate and key of this end"};
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      ERR_clear_error();
      return server ? Error{"tls_unknown_ca", "the client does not know the CA of our certificate", "give the client the CA file that issued it"}
                    : Error{"tls_client_cert_refused", fmt::format("{} does not know the CA of our certificate", host), "have it issued by the CA that the server names"};
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED: {
      const auto why = openssl_reason();
      return {server ? "tls_handshake_failed" : "tls_client_cert_refused", fmt::format("{} refused our certificate: {}", server ? "the client" : host, why), {}};
    }
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_BAD_RECORD_TYPE:
      if (handshaking) {
        const auto why = openssl_reason();
        return {"tls_not_tls", fmt::format("{} does not speak TLS here ({})", server ? "the client" : host, why), "check scheme and port"};
      }
      break;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_NO_PROTOCOLS_AVAILABLE:
      ERR_clear_error();
      return {"tls_version", "the two ends have no TLS version in common; the feed needs 1.3", {}};
    default: break;
  }
  const auto why = e == 0 ? std::string("the other side closed the connection") : openssl_reason();
  ERR_clear_error();
  return {handshaking ? "tls_handshake_failed" : "tls_broken", fmt::format("TLS with {}: {}", server ? "a client" : host, why), {}};
}

}  // namespace zaris::tls
