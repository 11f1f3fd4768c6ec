// Which build this is. In a source file of its own, so that a new commit recompiles nothing else.
#pragma once

namespace zaris {
extern const char* const build_version;   // "0.1.0"
extern const char* const build_revision;  // 12 hex digits of the commit, or "unknown"
}  // namespace zaris
