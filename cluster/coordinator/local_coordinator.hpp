// The coordinator of a region that is one process: LMDB in `node.data_dir`/coordinator, every row with a checksum
// (cluster/lmdb). Bytes: docs/formats/coordinator.md.
#pragma once
#include <memory>
#include <string>

#include "cluster/coordinator/coordinator.hpp"

namespace zaris::coordinator {

struct LocalCoordinatorOptions {
  std::string data_dir;                            // node.data_dir; "/coordinator" is added
  ClusterSettings settings;
  WallMicros now_us = 0;
};

// Takes the data directory for this process, proves the file (in a child process: best called before threads start),
// creates it if this is the first start, and notes the start.
// Errors: `data_dir_locked` (names the holder), `data_dir_unreadable`, `settings_changed` (both values),
// `coordinator_damaged`, `coordinator_format_newer`, `coordinator_format_old`, `coordinator_disk_full`, `coordinator_io`.
// A file that is there and cannot be trusted is never replaced.
[[nodiscard]] Result<std::unique_ptr<Coordinator>> open_local_coordinator(const LocalCoordinatorOptions& options);

}  // namespace zaris::coordinator
