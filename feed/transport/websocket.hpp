// WebSocket framing (RFC 6455), binary messages only, no extensions. No I/O. One thread at a time.
//
// A writer leaves `header_room` bytes in front of a message and gets the header put there, so that a message is one
// contiguous buffer from encoder to socket (design page feed, Transport). A reader takes bytes as they come and bounds
// everything before it takes memory.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"

namespace zaris::feed::websocket {

enum class Opcode : std::uint8_t { continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

// RFC 6455 section 7.4.1.
enum class CloseCode : std::uint16_t { normal = 1000, going_away = 1001, protocol_error = 1002, unsupported = 1003, too_big = 1009, internal = 1011, try_later = 1013 };

inline constexpr std::size_t header_room = 10;         // an unmasked header is at most this long
inline constexpr std::size_t masked_header_room = 14;

// `message` is header_room bytes of anything, then the payload. Writes the unmasked header of one whole message right in
// front of the payload and returns where the frame starts within `message`.
[[nodiscard]] std::size_t put_header(std::string& message, Opcode opcode = Opcode::binary);
// What a client sends: header, mask, masked payload (RFC 6455 5.3: the mask is fresh randomness, drawn by the caller).
[[nodiscard]] std::string masked_frame(Opcode opcode, std::string_view payload, std::uint32_t mask);
// What a server sends for control frames and short answers.
[[nodiscard]] std::string frame(Opcode opcode, std::string_view payload);
[[nodiscard]] std::string close_payload(CloseCode code, std::string_view reason);

// "Sec-WebSocket-Accept" for a "Sec-WebSocket-Key"; base64 of bytes.
[[nodiscard]] std::string accept_key(std::string_view key);
[[nodiscard]] std::string base64(std::string_view bytes);

enum class Side : std::uint8_t { server, client };     // a server demands masked frames, a client unmasked ones

class Reader {
 public:
  struct Event {
    enum class Kind : std::uint8_t { message, ping, pong, close } kind;
    std::shared_ptr<std::string> bytes;                // message: whole; control: payload
  };

  // `message_max`: bytes of one message, fragments together. `trust_length`: take memory for a whole frame when its
  // header is seen (the bulk path of a client); otherwise memory follows the bytes.
  Reader(Side side, std::uint64_t message_max, bool trust_length);

  // Takes bytes from the front of `in` until an event is complete or `in` is empty. Errors end the connection:
  // websocket_protocol_error, websocket_message_too_big, websocket_unsupported.
  [[nodiscard]] Result<std::optional<Event>> take(std::string_view& in);

  // Where the next payload bytes belong, when the reader is inside a large unmasked frame whose memory it holds: read
  // straight into it, then say how many came. Empty room: use take().
  struct Room { char* at = nullptr; std::size_t size = 0; };
  [[nodiscard]] Room direct();
  [[nodiscard]] std::optional<Event> committed(std::size_t bytes);

  [[nodiscard]] bool in_message() const { return message_ != nullptr; }
  [[nodiscard]] std::uint64_t held_bytes() const { return message_ ? message_->capacity() : 0; }

 private:
  [[nodiscard]] Result<bool> parse_header();           // false: more bytes are needed
  [[nodiscard]] std::optional<Event> frame_complete();
  void place(std::string_view bytes);

  const Side side_;
  const bool trust_length_;
  const std::uint64_t message_max_;
  std::array<unsigned char, masked_header_room> header_{};
  std::uint8_t header_have_ = 0;
  bool in_payload_ = false, final_ = false, masked_ = false;
  Opcode opcode_ = Opcode::binary;                     // of the frame being read
  std::array<unsigned char, 4> mask_{};
  std::uint64_t frame_left_ = 0, frame_done_ = 0;
  std::shared_ptr<std::string> message_;               // a data message begun
  std::size_t message_filled_ = 0;                     // bytes of it that came (it may be sized ahead)
  std::string control_;
};

}  // namespace zaris::feed::websocket
