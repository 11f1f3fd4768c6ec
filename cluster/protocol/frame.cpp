#include "cluster/protocol/frame.hpp"

#include <cstring>

#include "cluster/base/assert.hpp"
#include "cluster/protocol/pack.hpp"

namespace zaris::protocol {
namespace {

void put_u32(char* at, std::uint32_t v) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<char>(v >> (8 * i));
}
void put_u16(char* at, std::uint16_t v) {
  at[0] = static_cast<char>(v);
  at[1] = static_cast<char>(v >> 8);
}
std::uint32_t get_u32(const char* at) {
  std::uint32_t v = 0;
  for (int i = 3; i >= 0; --i) v = v << 8 | static_cast<unsigned char>(at[i]);
  return v;
}
std::uint16_t get_u16(const char* at) {
  return static_cast<std::uint16_t>(static_cast<unsigned char>(at[0]) | static_cast<unsigned char>(at[1]) << 8);
}

}  // namespace

std::string_view name(Opcode opcode) {
  switch (opcode) {
    case Opcode::hello: return "Hello";
    case Opcode::get: return "Get";
    case Opcode::put: return "Put";
    case Opcode::del: return "Delete";
    case Opcode::touch: return "Touch";
    case Opcode::time_to_live: return "TimeToLive";
    case Opcode::batch: return "Batch";
    case Opcode::scan: return "Scan";
    case Opcode::digest: return "Digest";
    case Opcode::status: return "Status";
    case Opcode::map: return "Map";
    case Opcode::accept_empty: return "AcceptEmpty";
    case Opcode::list_pins: return "ListPins";
    case Opcode::drop_pin: return "DropPin";
    case Opcode::region_status: return "RegionStatus";
    case Opcode::drain_node: return "DrainNode";
    case Opcode::copies: return "Copies";
    case Opcode::open_link: return "OpenLink";
    case Opcode::read_marks: return "ReadMarks";
    case Opcode::mark_checksum: return "MarkChecksum";
    case Opcode::apply_batch: return "ApplyBatch";
    case Opcode::list_links: return "ListLinks";
    case Opcode::drop_link: return "DropLink";
    case Opcode::drop_scope: return "DropScope";
    case Opcode::follower_lease: return "FollowerLease";
    case Opcode::list_rolled_back: return "ListRolledBack";
    case Opcode::peer_hello: return "PeerHello";
    case Opcode::heartbeat: return "Heartbeat";
    case Opcode::grant: return "Grant";
    case Opcode::granted: return "Granted";
    case Opcode::fence: return "Fence";
    case Opcode::fenced: return "Fenced";
    case Opcode::hand_over: return "HandOver";
    case Opcode::handed_over: return "HandedOver";
    case Opcode::follow: return "Follow";
    case Opcode::following: return "Following";
    case Opcode::replica_run: return "ReplicaRun";
    case Opcode::replica_marks: return "ReplicaMarks";
    case Opcode::replica_page: return "ReplicaPage";
    case Opcode::replica_floors: return "ReplicaFloors";
    case Opcode::replica_pins: return "ReplicaPins";
    case Opcode::replica_closed_time: return "ReplicaClosedTime";
    case Opcode::replica_received: return "ReplicaReceived";
    case Opcode::replica_credit: return "ReplicaCredit";
  }
  return "Unknown";
}

bool known(std::uint8_t opcode) { return name(static_cast<Opcode>(opcode)) != "Unknown"; }

FrameParser::Step FrameParser::parse(std::string_view in, Frame& out) const {
  constexpr std::size_t length_bytes = 4;
  if (in.size() < length_bytes) return {FrameStep::need_more, 0, frame_header_bytes};
  const std::size_t rest = get_u32(in.data());
  const bool header_there = in.size() >= frame_header_bytes;
  if (header_there) {
    out.header.version = static_cast<std::uint8_t>(in[4]);
    out.header.opcode = static_cast<std::uint8_t>(in[5]);
    out.header.status = get_u16(in.data() + 6);
    out.header.correlation = get_u32(in.data() + 8);
  }
  if (rest < frame_header_bytes - length_bytes) return {FrameStep::malformed, 0, 0};
  if (rest > frame_max_) {
    // The header is waited for, so that the refusal can name the request.
    return {header_there ? FrameStep::too_large : FrameStep::need_more, 0, frame_header_bytes};
  }
  if (header_there && out.header.version == 0) return {FrameStep::malformed, 0, 0};
  const std::size_t whole = length_bytes + rest;
  if (in.size() < whole) return {FrameStep::need_more, 0, whole};
  out.body = in.substr(frame_header_bytes, whole - frame_header_bytes);
  return {FrameStep::frame, whole, whole};
}

void write_frame_header(char* at, Opcode opcode, std::uint16_t status_or_flags, std::uint32_t correlation, std::size_t frame_bytes) {
  ZARIS_ASSERT(frame_bytes >= frame_header_bytes && frame_bytes - 4 <= 0xffff'ffffu, frame_bytes);
  put_u32(at, static_cast<std::uint32_t>(frame_bytes - 4));
  at[4] = static_cast<char>(protocol_version);
  at[5] = static_cast<char>(opcode);
  put_u16(at + 6, status_or_flags);
  put_u32(at + 8, correlation);
}

std::size_t begin_frame(std::string& out, Opcode opcode, std::uint16_t status_or_flags, std::uint32_t correlation) {
  const std::size_t at = out.size();
  char header[frame_header_bytes];
  write_frame_header(header, opcode, status_or_flags, correlation, frame_header_bytes);
  out.append(header, frame_header_bytes);
  return at;
}

void end_frame(std::string& out, std::size_t at, std::size_t bytes_behind) {
  const std::size_t rest = out.size() - at - 4 + bytes_behind;
  ZARIS_ASSERT(rest <= 0xffff'ffffu, rest);
  put_u32(out.data() + at, static_cast<std::uint32_t>(rest));
}

void encode_error(std::string& out, Opcode opcode, Status status, std::uint32_t correlation, std::string_view reason,
                  std::string_view hint) {
  const std::size_t at = begin_frame(out, opcode, static_cast<std::uint16_t>(status), correlation);
  Packer pack(out);
  pack.array(hint.empty() ? 1 : 2);
  pack.str(reason);
  if (!hint.empty()) pack.str(hint);
  end_frame(out, at);
}

bool decode_error(std::string_view body, ErrorAnswer& out) {
  Unpacker in(body);
  Places places(in);
  if (places.left() == 0 || !in.at_str()) return false;
  out.reason = places.bytes();
  out.hint = places.bytes();
  return in.ok();
}

}  // namespace zaris::protocol
