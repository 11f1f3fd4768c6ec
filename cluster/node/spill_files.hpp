// The node's spill: files in a folder, appended by a thread of its own and read by another, so that a disk that hangs stops
// neither writers nor readers of what is in memory. Nothing is synced: after a restart nothing of it is wanted. A file whose
// last chunk has been dropped is removed; the folder is emptied at start. Design page record, "Spill".
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cluster/base/file_descriptor.hpp"
#include "cluster/store/spill_device.hpp"

namespace zaris::node {

class SpillFiles final : public store::SpillDevice {
 public:
  // `bytes_max`: what the store keeps there at most; files are a small part of it. Makes the folder, takes hold of it and empties it of
  // what an earlier process left. Errors: `spill_unusable`, `spill_in_use`.
  [[nodiscard]] static Result<std::shared_ptr<SpillFiles>> open(const std::string& folder, std::uint64_t bytes_max);
  ~SpillFiles() override;

  void write(std::string bytes, Written done) override;
  void read(const store::SpillPlace& place, Read done) override;
  void drop(const store::SpillPlace& place) override;

 private:
  SpillFiles(std::string folder, std::uint64_t file_bytes, FileDescriptor lock);

  struct File {
    FileDescriptor fd;
    std::string path;
    std::uint64_t written = 0;
    std::uint64_t live = 0;     // chunks that may still be read
  };
  struct WriteJob { std::string bytes; Written done; };
  struct ReadJob { store::SpillPlace place; Read done; };

  void write_jobs();
  void read_jobs();
  [[nodiscard]] Result<store::SpillPlace> append(const std::string& bytes);
  [[nodiscard]] Result<std::string> fetch(const store::SpillPlace& place);
  [[nodiscard]] Result<std::shared_ptr<File>> current_file();

  const std::string folder_;
  const std::uint64_t file_bytes_;
  const FileDescriptor lock_file_;

  std::mutex lock_;
  std::condition_variable writes_, reads_;
  bool stop_ = false;
  std::deque<WriteJob> write_jobs_;
  std::deque<ReadJob> read_jobs_;
  std::map<std::uint64_t, std::shared_ptr<File>> files_;
  std::uint64_t next_file_ = 1;
  std::uint64_t current_ = 0;   // 0: none
  std::thread writer_, reader_;
};

}  // namespace zaris::node
