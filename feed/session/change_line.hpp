// One change as one line of JSON. Keys and values that are UTF-8 text stand as they are, others in base64.
#pragma once
#include <string>
#include <string_view>

#include "cluster/record/record.hpp"

namespace zaris::feed {

// Appends the line and its newline.
void append_change_line(std::string& out, SegmentId segment, const RecordView& record);
// Appends the bytes as a JSON string when they are UTF-8 text; false, and nothing, when they are not.
[[nodiscard]] bool append_json_text(std::string& out, std::string_view bytes);

}  // namespace zaris::feed
