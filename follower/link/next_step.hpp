// What a person does next about a reason of a link: the commands themselves, with the link's name. SOURCE and TARGET stand for connection
// strings, which a link does not know. A test holds the commands against what `zaris` understands (tests/system/cli/named_commands.py).
#pragma once
#include <string>
#include <string_view>

#include "cluster/placement/scope.hpp"

namespace zaris::follower {

// Empty: nothing is to be done, or nothing is known that would help. `scope`: the link's; commands name its prefixes.
[[nodiscard]] std::string next_step(std::string_view code, std::string_view link, const Scope& scope);

}  // namespace zaris::follower
