#include "cluster/cli/exit_code.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace zaris::cli {
namespace {

struct Row {
  std::string_view code;
  ExitCode exit;
};

constexpr std::array<Row, 37> rows{{
    {"not_found", exit_no},
    {"differ", exit_no},
    {"copies_differ", exit_no},
    {"code_unknown", exit_no},
    {"usage", exit_usage},
    {"url_invalid", exit_usage},
    {"duration_invalid", exit_usage},
    {"scope_invalid", exit_usage},
    {"token_invalid", exit_usage},
    {"input_invalid", exit_usage},
    {"confirmation_needed", exit_usage},
    {"file_unreadable", exit_configuration},
    {"program_missing", exit_configuration},
    {"tls_dev_ca_failed", exit_configuration},
    {"unreachable", exit_unreachable},
    {"protocol_malformed", exit_unreachable},
    {"tls_failed", exit_authentication},
    {"unauthorized", exit_not_allowed},
    {"timed_out", exit_timed_out},
    {"connection_lost", exit_timed_out},
    {"conflict", exit_conflict},
    {"target_changed", exit_conflict},
    {"target_not_empty", exit_conflict},
    {"wrong_cluster", exit_conflict},
    {"source_changed", exit_conflict},
    {"scope_mismatch", exit_conflict},
    {"standby", exit_conflict},
    {"term_superseded", exit_conflict},
    {"epoch_superseded", exit_conflict},
    {"link_not_paused", exit_conflict},
    {"nothing_to_accept", exit_conflict},
    {"link_stopping", exit_unreachable},
    {"source_unknown", exit_unreachable},
    {"position_gone", exit_position_gone},
    {"below_floor", exit_position_gone},
    {"list_gone", exit_position_gone},
    {"partly_done", exit_partly},
}};

}  // namespace

ExitCode exit_code_of(const Error& error) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.code == error.code; });
  return found == rows.end() ? exit_refused : found->exit;
}

}  // namespace zaris::cli
