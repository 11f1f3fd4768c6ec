#include "feed/transport/http_error.hpp"

#include <nlohmann/json.hpp>

namespace zaris::feed {

Error error_in(std::string_view body, Error otherwise) {
  const auto json = nlohmann::json::parse(body, nullptr, false);
  if (!json.is_object() || !json.contains("error") || !json["error"].is_object()) return otherwise;
  const auto& said = json["error"];
  const auto text = [&](const char* name) { return said.contains(name) && said[name].is_string() ? said[name].get<std::string>() : std::string(); };
  if (auto code = text("code"); is_code(code)) otherwise.code = std::move(code);
  if (const auto what = text("text"); !what.empty()) otherwise.what += ": " + printable(what, 512);
  if (const auto hint = text("hint"); !hint.empty()) otherwise.hint = printable(hint, 512);
  return otherwise;
}

std::string error_json(const Error& error) {
  const nlohmann::json json{{"error", {{"code", error.code}, {"text", error.what}, {"hint", error.hint}}}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace zaris::feed
