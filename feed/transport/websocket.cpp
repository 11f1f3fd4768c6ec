#include "feed/transport/websocket.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>

#include "cluster/base/assert.hpp"

namespace zaris::feed::websocket {
namespace {

constexpr std::string_view accept_suffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455 section 1.3
constexpr std::uint64_t direct_min = 4096;

// Returns the header's length; `to` has masked_header_room bytes.
std::size_t make_header(unsigned char* to, Opcode opcode, std::uint64_t payload, const std::uint32_t* mask) {
  std::size_t n = 2;
  to[0] = static_cast<unsigned char>(0x80 | static_cast<unsigned>(opcode));
  const unsigned masked = mask == nullptr ? 0 : 0x80;
  if (payload < 126) {
    to[1] = static_cast<unsigned char>(masked | payload);
  } else {
    const unsigned length_bytes = payload < 65536 ? 2 : 8;
    to[1] = static_cast<unsigned char>(masked | (length_bytes == 2 ? 126 : 127));
    for (unsigned i = 0; i < length_bytes; ++i) to[2 + i] = static_cast<unsigned char>(payload >> (8 * (length_bytes - 1 - i)));
    n += length_bytes;
  }
  if (mask != nullptr) {
    for (unsigned i = 0; i < 4; ++i) to[n + i] = static_cast<unsigned char>(*mask >> (8 * (3 - i)));
    n += 4;
  }
  return n;
}

// XORs `bytes` with the mask, which stands at `offset` of its frame.
void unmask(char* bytes, std::size_t size, const std::array<unsigned char, 4>& mask, std::uint64_t offset) {
  std::array<unsigned char, 8> turned{};
  for (std::size_t i = 0; i < 8; ++i) turned[i] = mask[(offset + i) & 3];
  std::uint64_t wide = 0;
  std::memcpy(&wide, turned.data(), 8);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + i, 8);
    word ^= wide;
    std::memcpy(bytes + i, &word, 8);
  }
  for (; i < size; ++i) bytes[i] = static_cast<char>(static_cast<unsigned char>(bytes[i]) ^ turned[i & 7]);
}

bool is_control(Opcode opcode) { return static_cast<unsigned>(opcode) >= 8; }

tl::unexpected<Error> broken(std::string what) { return failure("websocket_protocol_error", "WebSocket: " + std::move(what)); }

}  // namespace

std::size_t put_header(std::string& message, Opcode opcode) {
  ZARIS_ASSERT(message.size() >= header_room, message.size());
  unsigned char header[masked_header_room];
  const std::size_t n = make_header(header, opcode, message.size() - header_room, nullptr);
  std::memcpy(message.data() + (header_room - n), header, n);
  return header_room - n;
}

std::string masked_frame(Opcode opcode, std::string_view payload, std::uint32_t mask) {
  unsigned char header[masked_header_room];
  const std::size_t n = make_header(header, opcode, payload.size(), &mask);
  std::string out;
  out.reserve(n + payload.size());
  out.append(reinterpret_cast<const char*>(header), n);
  out.append(payload);
  std::array<unsigned char, 4> bytes{};
  for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<unsigned char>(mask >> (8 * (3 - i)));
  unmask(out.data() + n, payload.size(), bytes, 0);
  return out;
}

std::string frame(Opcode opcode, std::string_view payload) {
  std::string out(header_room, '\0');
  out.append(payload);
  const std::size_t at = put_header(out, opcode);
  return out.substr(at);
}

std::string close_payload(CloseCode code, std::string_view reason) {
  std::string out{static_cast<char>(static_cast<unsigned>(code) >> 8), static_cast<char>(static_cast<unsigned>(code) & 0xff)};
  out.append(reason.substr(0, 123));  // a control frame carries at most 125 bytes
  return out;
}

std::string base64(std::string_view bytes) {
  std::string out(4 * ((bytes.size() + 2) / 3), '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<int>(bytes.size()));
  return out;
}

std::string accept_key(std::string_view key) {
  std::string text(key);
  text += accept_suffix;
  unsigned char md[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), md, &size, EVP_sha1(), nullptr);
  return base64({reinterpret_cast<char*>(md), size});
}

Reader::Reader(Side side, std::uint64_t message_max, bool trust_length) : side_(side), trust_length_(trust_length), message_max_(message_max) {}

Result<bool> Reader::parse_header() {
  const unsigned b0 = header_[0], b1 = header_[1];
  if (header_have_ < 2) return false;
  if ((b0 & 0x70) != 0) return broken("reserved bits are set (no extension was agreed)");
  masked_ = (b1 & 0x80) != 0;
  if (masked_ != (side_ == Side::server)) return broken(masked_ ? "a server's frame is masked" : "a client's frame is not masked");
  const unsigned short_length = b1 & 0x7f;
  const std::size_t need = 2 + (short_length == 126 ? 2u : short_length == 127 ? 8u : 0u) + (masked_ ? 4u : 0u);
  if (header_have_ < need) return false;

  std::uint64_t length = short_length;
  std::size_t at = 2;
  if (short_length >= 126) {
    const unsigned bytes = short_length == 126 ? 2 : 8;
    length = 0;
    for (unsigned i = 0; i < bytes; ++i) length = length << 8 | header_[at + i];
    at += bytes;
    if (length >> 63 != 0 || length < (bytes == 2 ? 126u : 65536u)) return broken("a length is not in its shortest form");
  }
  if (masked_) std::memcpy(mask_.data(), header_.data() + at, 4);

  final_ = (b0 & 0x80) != 0;
  opcode_ = static_cast<Opcode>(b0 & 0x0f);
  switch (opcode_) {
    case Opcode::close:
    case Opcode::ping:
    case Opcode::pong:
      if (!final_ || length > 125) return broken("a control frame is fragmented or longer than 125 bytes");
      control_.clear();
      break;
    case Opcode::text: return failure("websocket_unsupported", "WebSocket: text messages are not part of the feed");
    case Opcode::binary:
      if (message_) return broken("a message begins within another");
      message_ = std::make_shared<std::string>();
      message_filled_ = 0;
      break;
    case Opcode::continuation:
      if (!message_) return broken("a continuation without a beginning");
      break;
    default: return broken(fmt::format("opcode {} does not exist", static_cast<unsigned>(opcode_)));
  }
  if (!is_control(opcode_)) {
    if (length > message_max_ - std::min<std::uint64_t>(message_filled_, message_max_)) {
      return failure("websocket_message_too_big", fmt::format("WebSocket: a message of more than {} bytes", message_max_));
    }
    if (trust_length_) message_->resize(message_filled_ + length);
  }
  frame_left_ = length;
  frame_done_ = 0;
  in_payload_ = true;
  header_have_ = 0;
  return true;
}

void Reader::place(std::string_view bytes) {
  char* at = nullptr;
  if (is_control(opcode_)) {
    const std::size_t old = control_.size();
    control_.append(bytes);
    at = control_.data() + old;
  } else if (trust_length_) {
    at = message_->data() + message_filled_;
    std::memcpy(at, bytes.data(), bytes.size());
    message_filled_ += bytes.size();
  } else {
    message_->append(bytes);
    at = message_->data() + message_filled_;
    message_filled_ += bytes.size();
  }
  if (masked_) unmask(at, bytes.size(), mask_, frame_done_);
  frame_done_ += bytes.size();
  frame_left_ -= bytes.size();
}

std::optional<Reader::Event> Reader::frame_complete() {
  in_payload_ = false;
  switch (opcode_) {
    case Opcode::close: return Event{Event::Kind::close, std::make_shared<std::string>(std::move(control_))};
    case Opcode::ping: return Event{Event::Kind::ping, std::make_shared<std::string>(std::move(control_))};
    case Opcode::pong: return Event{Event::Kind::pong, std::make_shared<std::string>(std::move(control_))};
    default: break;
  }
  if (!final_) return std::nullopt;
  return Event{Event::Kind::message, std::move(message_)};
}

Result<std::optional<Reader::Event>> Reader::take(std::string_view& in) {
  for (;;) {
    if (!in_payload_) {
      if (in.empty()) return std::nullopt;
      header_[header_have_++] = static_cast<unsigned char>(in.front());
      in.remove_prefix(1);
      auto parsed = parse_header();
      if (!parsed) return tl::unexpected(parsed.error());
      if (!*parsed) continue;
    } else {
      const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(frame_left_, in.size()));
      place(in.substr(0, n));
      in.remove_prefix(n);
    }
    if (frame_left_ == 0) {
      if (auto event = frame_complete()) return event;
    } else if (in.empty()) {
      return std::nullopt;
    }
  }
}

Reader::Room Reader::direct() {
  if (!trust_length_ || !in_payload_ || masked_ || is_control(opcode_) || frame_left_ < direct_min) return {};
  return {message_->data() + message_filled_, static_cast<std::size_t>(frame_left_)};
}

std::optional<Reader::Event> Reader::committed(std::size_t bytes) {
  ZARIS_ASSERT(bytes <= frame_left_, bytes, frame_left_);
  message_filled_ += bytes;
  frame_done_ += bytes;
  frame_left_ -= bytes;
  if (frame_left_ != 0) return std::nullopt;
  return frame_complete();
}

}  // namespace zaris::feed::websocket
