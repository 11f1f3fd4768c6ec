#include "trip.hpp"

#include "cluster/protocol/admin_messages.hpp"
#include "cluster/protocol/data_messages.hpp"
#include "cluster/protocol/link_messages.hpp"
#include "cluster/protocol/operator_messages.hpp"

namespace zaris::protocol {
namespace {

template <class T>
std::optional<T> read(std::string_view body) {
  T value;
  if (!decode(body, value)) return std::nullopt;
  return value;
}

// encode(out, correlation, value)
template <class T>
bool plain(std::string& out, std::uint32_t correlation, std::string_view body) {
  const auto value = read<T>(body);
  if (value) encode(out, correlation, *value);
  return value.has_value();
}
// encode(out, opcode, correlation, value)
template <class T>
bool with_opcode(std::string& out, Opcode opcode, std::uint32_t correlation, std::string_view body) {
  const auto value = read<T>(body);
  if (value) encode(out, opcode, correlation, *value);
  return value.has_value();
}

bool batch_request(std::string& out, std::uint32_t correlation, std::string_view body) {
  BatchRequest request;
  if (!BatchRequest::decode(body, request)) return false;
  BatchRequestWriter writer(out, correlation, request.durability());
  BatchItem item;
  while (request.next(item)) writer.add(item);
  writer.finish();
  return request.ok();
}

bool batch_answer(std::string& out, std::uint32_t correlation, std::string_view body) {
  BatchAnswer answer;
  if (!BatchAnswer::decode(body, answer)) return false;
  BatchAnswerWriter writer(out, correlation);
  BatchAnswerItem item;
  while (answer.next(item)) writer.read(item.status, item.token, item.expires_us, item.value);
  writer.finish();
  return answer.ok();
}

bool request(std::string& out, const Frame& frame) {
  const auto opcode = static_cast<Opcode>(frame.header.opcode);
  const std::uint32_t c = frame.header.correlation;
  const std::string_view body = frame.body;
  switch (opcode) {
    case Opcode::hello: return plain<Hello>(out, c, body);
    case Opcode::get:
    case Opcode::time_to_live: {
      const auto key = read<KeyRequest>(body);
      if (key) opcode == Opcode::get ? encode_get(out, c, key->key) : encode_time_to_live(out, c, key->key);
      return key.has_value();
    }
    case Opcode::put: return plain<PutRequest>(out, c, body);
    case Opcode::del: return plain<DeleteRequest>(out, c, body);
    case Opcode::touch: return plain<TouchRequest>(out, c, body);
    case Opcode::batch: return batch_request(out, c, body);
    case Opcode::scan: return plain<ScanRequest>(out, c, body);
    case Opcode::digest: return plain<DigestRequest>(out, c, body);
    case Opcode::status: encode_status_request(out, c); return true;
    case Opcode::map: encode_map_request(out, c); return true;
    case Opcode::accept_empty: return plain<AcceptEmptyRequest>(out, c, body);
    case Opcode::list_pins: encode_list_pins(out, c); return true;
    case Opcode::drop_pin: return plain<DropPinRequest>(out, c, body);
    case Opcode::region_status: encode_region_status_request(out, c); return true;
    case Opcode::drain_node: return plain<DrainNodeRequest>(out, c, body);
    case Opcode::copies: return plain<CopiesRequest>(out, c, body);
    case Opcode::open_link: return plain<OpenLinkRequest>(out, c, body);
    case Opcode::read_marks: return plain<ReadMarksRequest>(out, c, body);
    case Opcode::mark_checksum: return plain<MarkChecksumRequest>(out, c, body);
    case Opcode::apply_batch: {
      const auto batch = read<ApplyBatch>(body);
      if (!batch) return false;
      encode_apply(out, c, *batch);
      out.append(batch->table);
      out.append(batch->records);
      return true;
    }
    case Opcode::list_links: encode_list_links(out, c); return true;
    case Opcode::drop_link:
    case Opcode::drop_scope: return with_opcode<DropRequest>(out, opcode, c, body);
    case Opcode::follower_lease: return plain<FollowerLeaseRequest>(out, c, body);
    case Opcode::list_rolled_back: return plain<ListRolledBackRequest>(out, c, body);
    case Opcode::peer_hello:  // between nodes: region_messages_test.cpp
    case Opcode::heartbeat:
    case Opcode::grant:
    case Opcode::granted:
    case Opcode::fence:
    case Opcode::fenced:
    case Opcode::hand_over:
    case Opcode::handed_over:
    case Opcode::follow:  // tests/unit/replication
    case Opcode::following:
    case Opcode::replica_run:
    case Opcode::replica_marks:
    case Opcode::replica_page:
    case Opcode::replica_floors:
    case Opcode::replica_pins:
    case Opcode::replica_closed_time:
    case Opcode::replica_received:
    case Opcode::replica_credit: return false;
  }
  return false;
}

bool answer(std::string& out, const Frame& frame) {
  const auto opcode = static_cast<Opcode>(frame.header.opcode);
  const std::uint32_t c = frame.header.correlation;
  const std::string_view body = frame.body;
  const auto status = static_cast<Status>(frame.header.status);
  if (ErrorAnswer error; decode_error(body, error)) {
    encode_error(out, opcode, status, c, error.reason, error.hint);
    return true;
  }
  switch (opcode) {
    case Opcode::hello: return plain<Welcome>(out, c, body);
    case Opcode::get: {
      auto got = read<ReadAnswer>(body);
      if (!got) return false;
      got->status = status;
      encode_get_answer(out, c, *got);
      return true;
    }
    case Opcode::time_to_live: {
      const auto got = read<ReadAnswer>(body);
      if (got) encode_time_to_live_answer(out, c, status, got->token, got->expires_us);
      return got.has_value();
    }
    case Opcode::put:
    case Opcode::del:
    case Opcode::touch: {
      auto got = read<WriteAnswer>(body);
      if (!got) return false;
      got->status = status;
      encode(out, opcode, c, *got);
      return true;
    }
    case Opcode::batch: return batch_answer(out, c, body);
    case Opcode::scan: return plain<ScanAnswer>(out, c, body);
    case Opcode::digest: return plain<DigestAnswer>(out, c, body);
    case Opcode::status: return plain<StatusAnswer>(out, c, body);
    case Opcode::map: return plain<MapAnswer>(out, c, body);
    case Opcode::accept_empty: return plain<AcceptEmptyAnswer>(out, c, body);
    case Opcode::list_pins: return plain<ListPinsAnswer>(out, c, body);
    case Opcode::drop_pin: return plain<DropPinAnswer>(out, c, body);
    case Opcode::region_status: return plain<RegionStatusAnswer>(out, c, body);
    case Opcode::drain_node: return plain<DrainNodeAnswer>(out, c, body);
    case Opcode::copies: return plain<CopiesAnswer>(out, c, body);
    case Opcode::open_link: return plain<OpenLinkAnswer>(out, c, body);
    case Opcode::read_marks: return plain<ReadMarksAnswer>(out, c, body);
    case Opcode::mark_checksum: return plain<MarkChecksumAnswer>(out, c, body);
    case Opcode::apply_batch: return plain<ApplyAnswer>(out, c, body);
    case Opcode::list_links: return plain<ListLinksAnswer>(out, c, body);
    case Opcode::drop_link:
    case Opcode::drop_scope: return with_opcode<DropAnswer>(out, opcode, c, body);
    case Opcode::follower_lease: return plain<FollowerLeaseAnswer>(out, c, body);
    case Opcode::list_rolled_back: return plain<ListRolledBackAnswer>(out, c, body);
    case Opcode::peer_hello:  // between nodes: region_messages_test.cpp
    case Opcode::heartbeat:
    case Opcode::grant:
    case Opcode::granted:
    case Opcode::fence:
    case Opcode::fenced:
    case Opcode::hand_over:
    case Opcode::handed_over:
    case Opcode::follow:  // tests/unit/replication
    case Opcode::following:
    case Opcode::replica_run:
    case Opcode::replica_marks:
    case Opcode::replica_page:
    case Opcode::replica_floors:
    case Opcode::replica_pins:
    case Opcode::replica_closed_time:
    case Opcode::replica_received:
    case Opcode::replica_credit: return false;
  }
  return false;
}

}  // namespace

std::optional<std::string> trip(Side side, std::string_view bytes) {
  Frame frame;
  const auto step = FrameParser(1u << 20).parse(bytes, frame);
  if (step.step != FrameStep::frame) return std::nullopt;
  std::string out;
  if (!(side == Side::request ? request(out, frame) : answer(out, frame))) return std::nullopt;
  return out;
}

bool steady(Side side, std::string_view bytes) {
  const auto first = trip(side, bytes);
  if (!first) return true;
  const auto second = trip(side, *first);
  return second && *second == *first;
}

}  // namespace zaris::protocol
