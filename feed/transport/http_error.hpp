// What a gateway says in the body of an answer that is not what was asked for: {"error":{"code","text","hint"}}.
#pragma once
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"

namespace zaris::feed {

// `otherwise` with what the body says in its place: any body, from anybody. A code that has not a code's form is left alone; texts
// are cut and made printable.
[[nodiscard]] Error error_in(std::string_view body, Error otherwise);
// Such a body.
[[nodiscard]] std::string error_json(const Error& error);

}  // namespace zaris::feed
