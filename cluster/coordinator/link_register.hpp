// Who may write into a scope: the decision, without any I/O. Internal to cluster/coordinator.
#pragma once
#include "cluster/coordinator/coordinator.hpp"

namespace zaris::coordinator {

// What becomes of the register when `opening` comes; `known_epoch`: the site epoch last known for that scope, 0 if none.
// Errors as Coordinator::open_link.
[[nodiscard]] Result<LinkOpened> admit(const LinkRegister& links, SiteEpoch known_epoch, const LinkOpening& opening);

}  // namespace zaris::coordinator
