#include "feed/session/change_line.hpp"

#include <fmt/format.h>

#include <iterator>

#include "cluster/base/base64.hpp"

namespace zaris::feed {
namespace {

// The length of the UTF-8 sequence that starts here, 0: none does. No surrogates, no overlong forms, nothing past U+10FFFF.
std::size_t sequence(std::string_view s) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto follows = [&](std::size_t i) { return i < s.size() && (at(i) & 0xc0) == 0x80; };
  const unsigned char b = at(0);
  if (b < 0x80) return 1;
  if (b >= 0xc2 && b <= 0xdf) return follows(1) ? 2 : 0;
  if (b >= 0xe0 && b <= 0xef) {
    if (!follows(1) || !follows(2) || (b == 0xe0 && at(1) < 0xa0) || (b == 0xed && at(1) > 0x9f)) return 0;
    return 3;
  }
  if (b >= 0xf0 && b <= 0xf4) {
    if (!follows(1) || !follows(2) || !follows(3) || (b == 0xf0 && at(1) < 0x90) || (b == 0xf4 && at(1) > 0x8f)) return 0;
    return 4;
  }
  return 0;
}

void append_bytes(std::string& out, std::string_view name, std::string_view bytes) {
  out += fmt::format(",\"{}\":", name);
  if (append_json_text(out, bytes)) return;
  out.pop_back();
  out.pop_back();
  out += "_b64\":\"";
  append_base64(out, bytes);
  out += '"';
}

std::string_view operation(Deleted deleted) {
  switch (deleted) {
    case Deleted::no: return "put";
    case Deleted::by_delete: return "delete";
    case Deleted::by_expiry: return "expire";
    case Deleted::by_eviction: return "evict";
    case Deleted::by_repair: return "repair";
  }
  return "delete";
}

}  // namespace

bool append_json_text(std::string& out, std::string_view bytes) {
  const std::size_t start = out.size();
  out += '"';
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t n = sequence(bytes.substr(i));
    if (n == 0) {
      out.resize(start);
      return false;
    }
    const char c = bytes[i];
    if (n > 1) out.append(bytes, i, n);
    else if (c == '"' || c == '\\') (out += '\\') += c;
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c == '\t') out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else out += c;
    i += n;
  }
  out += '"';
  return true;
}

void append_change_line(std::string& out, SegmentId segment, const RecordView& record) {
  fmt::format_to(std::back_inserter(out), "{{\"op\":\"{}\"", operation(record.deleted));
  append_bytes(out, "key", record.key);
  if (record.live()) append_bytes(out, "value", record.value);
  fmt::format_to(std::back_inserter(out), ",\"item_version\":{},\"segment\":{},\"generation\":{},\"revision\":{},\"timestamp_us\":{}",
                 record.item_version, segment.value(), record.generation.value(), record.revision.value(), record.timestamp_us);
  if (record.expires_us != 0) fmt::format_to(std::back_inserter(out), ",\"expires_us\":{}", record.expires_us);
  out += "}\n";
}

}  // namespace zaris::feed
