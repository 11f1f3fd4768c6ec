// The lines of `zaris kv export` and `zaris kv import`, one record each:
//   {"key":"<base64>","value":"<base64>","item_version":3,"expires_us":0}      or to delete: {"key":"<base64>","deleted":true}
#pragma once
#include <string>
#include <string_view>

#include "cluster/base/result.hpp"
#include "cluster/record/record.hpp"

namespace zaris::cli {

void append_line(std::string& out, const RecordView& record);

struct InputRow {
  std::string key, value;
  WallMicros expires_us = 0;
  bool deleted = false;
};
// Any JSON object with those members; item_version is not looked at (the cluster counts), unknown members are refused.
// Errors: `input_invalid`.
[[nodiscard]] Result<InputRow> read_line(std::string_view line);

}  // namespace zaris::cli
