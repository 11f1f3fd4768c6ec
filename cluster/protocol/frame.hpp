// Frames of the native protocol. Bytes: docs/formats/native.md; design page protocol, "Frames".
//
//   u32 length of the rest · u8 version · u8 opcode · u16 status (answers) or flags (requests) · u32 correlation id
//   · one MessagePack positional array · for opcodes with records, their bytes            (little endian outside MessagePack)
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cluster/record/status.hpp"

namespace zaris::protocol {

inline constexpr std::uint8_t protocol_version = 1;
inline constexpr std::uint8_t protocol_version_min = 1;

// A request's flags. Bits that a node does not know are ignored.
inline constexpr std::uint16_t flag_answer_may_wait = 1;      // the answer may leave together with later ones, half a millisecond late

inline constexpr std::size_t frame_header_bytes = 12;         // of which 4 are the length
inline constexpr std::size_t frame_overhead_bytes = 64u << 10;  // room over what follows
inline constexpr std::size_t frame_content_min = 1u << 20;      // many small items travel together, however small the largest may be

// Numbers are the wire's and never change; new ones are appended.
enum class Opcode : std::uint8_t {
  hello = 1,
  get = 2,
  put = 3,
  del = 4,
  touch = 5,
  time_to_live = 6,
  batch = 7,
  scan = 8,
  digest = 9,
  status = 10,
  map = 11,          // correlation id 0 from the server: the map changed, unasked
  accept_empty = 12,
  list_pins = 13,
  drop_pin = 14,
  region_status = 15,
  drain_node = 16,
  copies = 17,
  open_link = 32,
  read_marks = 33,
  mark_checksum = 34,
  apply_batch = 35,
  list_links = 36,
  drop_link = 37,
  drop_scope = 38,
  follower_lease = 39,
  list_rolled_back = 40,
  // Between nodes of one region (docs/formats/region.md). Nothing is an answer to a frame.
  peer_hello = 48,
  heartbeat = 49,
  grant = 50,
  granted = 51,
  fence = 52,
  fenced = 53,
  hand_over = 54,
  handed_over = 55,
  follow = 64,
  following = 65,
  replica_run = 66,
  replica_marks = 67,
  replica_page = 68,
  replica_floors = 69,
  replica_pins = 70,
  replica_closed_time = 71,
  replica_received = 72,
  replica_credit = 73,
};
[[nodiscard]] std::string_view name(Opcode opcode);           // "Get"; "Unknown"
[[nodiscard]] bool known(std::uint8_t opcode);
// From here on frames go between nodes only; a client that sends one is answered Unsupported.
inline constexpr std::uint8_t first_node_opcode = 48;

// Records and their table that one request may carry to a peer with these limits, if they are more than one.
[[nodiscard]] constexpr std::size_t frame_content_max(std::size_t key_bytes_max, std::size_t value_bytes_max) {
  return key_bytes_max + value_bytes_max > frame_content_min ? key_bytes_max + value_bytes_max : frame_content_min;
}

// The longest frame, length field not counted, that a peer with these limits accepts: a range's two ends are keys as well.
[[nodiscard]] constexpr std::size_t frame_bytes_max(std::size_t key_bytes_max, std::size_t value_bytes_max) {
  return frame_content_max(key_bytes_max, value_bytes_max) + 2 * key_bytes_max + frame_overhead_bytes;
}

struct FrameHeader {
  std::uint8_t version = protocol_version;
  std::uint8_t opcode = 0;
  std::uint16_t status = 0;        // answers: Status; requests: flags
  std::uint32_t correlation = 0;   // 0: not an answer to anything (Map pushed)
};

// Views into the bytes that were parsed; dies with them.
struct Frame {
  FrameHeader header;
  std::string_view body;           // everything behind the header
};

// ---- reading ------------------------------------------------------------------------------------------------------
enum class FrameStep : std::uint8_t { need_more, frame, too_large, malformed };

// Takes frames off the front of a byte stream that the caller buffers. Stateless but for its limit, which Welcome may raise.
class FrameParser {
 public:
  explicit FrameParser(std::size_t frame_max) : frame_max_(frame_max) {}
  void limit(std::size_t frame_max) { frame_max_ = frame_max; }
  [[nodiscard]] std::size_t limit() const { return frame_max_; }

  // frame: `out` is filled and `consumed` bytes belong to it. need_more: `wanted` is how many bytes the frame takes in
  // all, as far as known, checked against the limit already. too_large: `out.header` is filled if it is there.
  // malformed: shorter than a header, or a version of 0.
  struct Step {
    FrameStep step = FrameStep::need_more;
    std::size_t consumed = 0;
    std::size_t wanted = frame_header_bytes;
  };
  [[nodiscard]] Step parse(std::string_view in, Frame& out) const;

 private:
  std::size_t frame_max_;
};

// ---- writing ------------------------------------------------------------------------------------------------------
// begin_frame appends a header with length 0 and returns where it stands; end_frame writes the length, counting
// `bytes_behind` bytes that are sent right after this buffer (table and records of an ApplyBatch).
[[nodiscard]] std::size_t begin_frame(std::string& out, Opcode opcode, std::uint16_t status_or_flags, std::uint32_t correlation);
void end_frame(std::string& out, std::size_t at, std::size_t bytes_behind = 0);
// For encoders that fill in a header in place: `at` has frame_header_bytes of room, `frame_bytes` is header and body.
void write_frame_header(char* at, Opcode opcode, std::uint16_t status_or_flags, std::uint32_t correlation, std::size_t frame_bytes);

// ---- errors -------------------------------------------------------------------------------------------------------
// What an answer carries instead of its operation's own array when there is nothing else to say. Told apart by its
// first place, which is a str; no other answer begins with one.
struct ErrorAnswer {
  std::string reason;
  std::string hint;
};
void encode_error(std::string& out, Opcode opcode, Status status, std::uint32_t correlation, std::string_view reason,
                  std::string_view hint = {});
// True when `body` is an ErrorAnswer.
[[nodiscard]] bool decode_error(std::string_view body, ErrorAnswer& out);

}  // namespace zaris::protocol
