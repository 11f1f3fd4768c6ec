#include "feed/client/http_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "feed/client/dialled.hpp"
#include "feed/transport/http.hpp"

namespace zaris::feed {
namespace {

constexpr std::size_t body_max = 16u << 20;
constexpr std::size_t chunk_line_max = 32;

class Stream final : public Dialled {
 public:
  Stream(Loop& to, FeedEndpoint endpoint, std::string target, HttpStream::Handlers handlers)
      : Dialled(to, std::move(endpoint)), target_(std::move(target)), handlers_(std::make_shared<const HttpStream::Handlers>(std::move(handlers))) {}

  void close() {
    handlers_.reset();
    let_go({});
  }

 private:
  void on_ready() override { send_bytes(http::get_request(endpoint().host, endpoint().port, target_, false)); }

  Next on_readable() override {
    static thread_local std::string scratch(64u << 10, '\0');
    for (int turn = 0; turn < 16; ++turn) {
      std::size_t got = 0;
      const tls::Io io = read(scratch.data(), scratch.size(), got);
      if (io == tls::Io::want_read) return Next::wait;
      if (io != tls::Io::ok) {
        end(channel_error());
        return Next::ended;
      }
      bytes_.append(scratch.data(), got);
      if (!consume()) return Next::ended;
    }
    return Next::again;
  }

  // False: over.
  bool consume() {
    if (!streaming_) {
      const auto head_end = bytes_.find("\r\n\r\n");
      if (head_end != std::string::npos && bytes_.starts_with("HTTP/1.1 200 ") && chunked(std::string_view(bytes_).substr(0, head_end + 2))) {
        bytes_.erase(0, head_end + 4);
        streaming_ = true;
        settled();
      } else {
        auto response = http::take_response(bytes_, body_max);
        if (!response) return end(response.error()), false;
        if (!*response) return true;
        const auto handlers = std::exchange(handlers_, nullptr);
        let_go({});
        if (handlers && handlers->on_answer) handlers->on_answer({(*response)->status, std::move((*response)->body)});
        return false;
      }
    }
    return take_chunks();
  }

  static bool chunked(std::string_view head) {
    std::string lower(head);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    return lower.find("\r\ntransfer-encoding: chunked\r\n") != std::string::npos;
  }

  bool take_chunks() {
    std::string_view rest = bytes_;
    bool broken = false, last = false;
    while (!rest.empty() && !broken && !last) {
      if (chunk_left_ == 0) {
        const auto line_end = rest.find("\r\n");
        if (line_end == std::string_view::npos) {
          broken = rest.size() > chunk_line_max;
          break;
        }
        std::uint64_t size = 0;
        const auto parsed = std::from_chars(rest.data(), rest.data() + line_end, size, 16);
        broken = parsed.ec != std::errc{} || line_end > chunk_line_max || size > (1ull << 40);
        rest.remove_prefix(line_end + 2);
        last = size == 0;
        chunk_left_ = size == 0 ? 0 : size + 2;                 // with the line end behind it
        continue;
      }
      const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(chunk_left_, rest.size()));
      // The last two are the chunk's line end.
      const std::size_t body = chunk_left_ > 2 ? static_cast<std::size_t>(std::min<std::uint64_t>(n, chunk_left_ - 2)) : 0;
      chunk_left_ -= n;
      const std::string_view piece = rest.substr(0, body);
      rest.remove_prefix(n);
      if (!piece.empty()) {
        if (const auto h = handlers_; h && h->on_bytes) h->on_bytes(piece);
        if (over()) return false;
      }
    }
    if (broken) return end({"http_malformed", fmt::format("{} sent a broken chunk", place()), {}}), false;
    if (last) return end({"end_of_stream", fmt::format("{} ended the stream", place()), {}}), false;
    bytes_.erase(0, bytes_.size() - rest.size());
    return true;
  }

  void on_ended(const Error& error) override {
    const auto handlers = std::exchange(handlers_, nullptr);
    if (handlers && handlers->on_closed) handlers->on_closed(error);
  }

  const std::string target_;
  std::shared_ptr<const HttpStream::Handlers> handlers_;
  std::string bytes_;
  bool streaming_ = false;
  std::uint64_t chunk_left_ = 0;
};

class Owner final : public HttpStream {
 public:
  Owner(Loop& loop, FeedEndpoint endpoint, std::string target, Handlers handlers)
      : stream_(std::make_shared<Stream>(loop, std::move(endpoint), std::move(target), std::move(handlers))) {
    stream_->dial();
  }
  ~Owner() override { stream_->close(); }

 private:
  std::shared_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<HttpStream> HttpStream::get(Loop& loop, FeedEndpoint endpoint, std::string target, Handlers handlers) {
  return std::make_unique<Owner>(loop, std::move(endpoint), std::move(target), std::move(handlers));
}

}  // namespace zaris::feed
