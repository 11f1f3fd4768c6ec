// Clang 14 lacks the builtin that libstdc++'s std::source_location is made of. Included ahead of everything by
// cmake/ZarisTargets.cmake where that is the compiler (fuzz targets and cores; nothing that is shipped).
#pragma once
#if defined(__clang__) && !__has_builtin(__builtin_source_location)
namespace std {
struct source_location {
  static constexpr source_location current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                                           unsigned line = __builtin_LINE()) noexcept {
    source_location out;
    out.file_ = file;
    out.function_ = function;
    out.line_ = line;
    return out;
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr const char* function_name() const noexcept { return function_; }
  constexpr unsigned line() const noexcept { return line_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  unsigned line_ = 0;
};
}  // namespace std
#endif
