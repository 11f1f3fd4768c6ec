#include "cluster/ownership/compressed_document.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include "cluster/base/assert.hpp"
#include "cluster/base/json_shape.hpp"

namespace zaris::ownership {
namespace {

constexpr std::size_t depth_max = 8;
constexpr std::size_t values_max = 600'000;  // 16,384 partitions with every field and replica, twice over

// Counted before the parser sees the text. (Its own callback would also do, but looks through the whole enclosing array at the end of
// every object.)
std::string_view too_large_shape(std::string_view text) {
  const JsonShape shape = json_shape(text);
  if (shape.depth > depth_max) return "it is nested too deep";
  if (shape.values > values_max) return "it has too many values";
  return {};
}

}  // namespace

tl::unexpected<Error> document_malformed(std::string_view what, std::string_view why) {
  return failure("cluster_document_malformed", fmt::format("{} cannot be read: {}", what, why),
                 "look whether all nodes run versions that know each other, and whether something else writes under the store's prefix");
}

std::string compress_document(const nlohmann::ordered_json& document) {
  const std::string text = document.dump();
  ZARIS_ASSERT(text.size() <= document_text_bytes_max, text.size());
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3);
  ZARIS_ASSERT(ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

Result<nlohmann::json> parse_document(std::string_view bytes, std::string_view what) {
  if (bytes.size() > document_bytes_max) return document_malformed(what, fmt::format("it has {} bytes, at most {} are possible", bytes.size(), document_bytes_max));
  const auto size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_ERROR) return document_malformed(what, "it is no zstd frame");
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size > document_text_bytes_max) {
    return document_malformed(what, fmt::format("its frame does not say that it holds at most {} bytes", document_text_bytes_max));
  }
  std::string text(size, '\0');
  const std::size_t got = ZSTD_decompress(text.data(), text.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0 || got != size) return document_malformed(what, "its zstd frame is damaged");
  return parse_document_text(text, what);
}

Result<nlohmann::json> parse_document_text(std::string_view text, std::string_view what) {
  if (text.size() > document_text_bytes_max) return document_malformed(what, fmt::format("it has {} bytes of text", text.size()));
  if (const std::string_view why = too_large_shape(text); !why.empty()) return document_malformed(what, why);
  auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return document_malformed(what, "it is no JSON");
  if (!document.is_object()) return document_malformed(what, "it is no JSON object");
  return document;
}

std::uint64_t number_in(const nlohmann::json& object, const char* field, std::uint64_t most, bool& ok) {
  const auto at = object.find(field);
  if (at == object.end() || !at->is_number_unsigned() || at->get<std::uint64_t>() > most) {
    ok = false;
    return 0;
  }
  return at->get<std::uint64_t>();
}

std::string text_in(const nlohmann::json& object, const char* field, std::size_t most, bool& ok) {
  const auto at = object.find(field);
  if (at == object.end() || !at->is_string() || at->get_ref<const std::string&>().size() > most) {
    ok = false;
    return {};
  }
  return at->get<std::string>();
}

bool parse_hex16(std::string_view text, std::uint64_t& out) {
  if (text.size() != 16) return false;
  out = 0;
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    out = out << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return true;
}

std::uint64_t hex_in(const nlohmann::json& object, const char* field, bool& ok) {
  std::uint64_t out = 0;
  if (!parse_hex16(text_in(object, field, 16, ok), out)) ok = false;
  return out;
}

}  // namespace zaris::ownership
