// The part of Asio that sits on OpenSSL.
#include <boost/asio/ssl/impl/src.hpp>
