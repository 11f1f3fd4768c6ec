// A document in the coordinator: JSON under one zstd frame. Far below the coordinator's 1 MiB, and bounded both ways.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"

namespace zaris::ownership {

inline constexpr std::size_t document_bytes_max = 1u << 20;         // as it is stored
inline constexpr std::size_t document_text_bytes_max = 8u << 20;    // of JSON inside

// Asserts the limit of the text, to which the callers' own limits see. The caller looks at the size of what comes out.
[[nodiscard]] std::string compress_document(const nlohmann::ordered_json& document);
// `what` begins the error's text. Errors: `cluster_document_malformed`. Memory stays within a small multiple of the limits,
// whatever the bytes are.
[[nodiscard]] Result<nlohmann::json> parse_document(std::string_view bytes, std::string_view what);
[[nodiscard]] Result<nlohmann::json> parse_document_text(std::string_view text, std::string_view what);

[[nodiscard]] tl::unexpected<Error> document_malformed(std::string_view what, std::string_view why);

// The field when it is there and of that kind, else a zero, an empty text, false; `ok` falls when it is not.
[[nodiscard]] std::uint64_t number_in(const nlohmann::json& object, const char* field, std::uint64_t most, bool& ok);
[[nodiscard]] std::string text_in(const nlohmann::json& object, const char* field, std::size_t most, bool& ok);
[[nodiscard]] std::uint64_t hex_in(const nlohmann::json& object, const char* field, bool& ok);  // 16 digits
// 16 lower-case hex digits, nothing else.
[[nodiscard]] bool parse_hex16(std::string_view text, std::uint64_t& out);

}  // namespace zaris::ownership
