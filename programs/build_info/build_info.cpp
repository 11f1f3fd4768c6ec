#include "programs/build_info/build_info.hpp"

namespace zaris {
const char* const build_version = ZARIS_VERSION;
const char* const build_revision = ZARIS_REVISION;
}  // namespace zaris
