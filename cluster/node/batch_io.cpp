#include "cluster/node/batch_io.hpp"

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "cluster/base/assert.hpp"

namespace zaris::node {
namespace {

// A mapping of the ring's memory that goes with its owner.
struct Mapping {
  void* at = MAP_FAILED;
  std::size_t size = 0;
  bool map(int fd, std::size_t bytes, std::uint64_t offset) {
    size = bytes;
    at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
    return at != MAP_FAILED;
  }
  ~Mapping() {
    if (at != MAP_FAILED) ::munmap(at, size);
  }
  template <class T>
  T* pointer(std::uint32_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(at) + offset);
  }
};

}  // namespace

struct BatchIo::Ring {
  int fd = -1;
  io_uring_params params{};
  Mapping submissions, completions, entries;
  unsigned queued = 0;
  std::vector<int> results;

  ~Ring() {
    if (fd >= 0) ::close(fd);
  }
  io_uring_sqe& next() {
    ZARIS_ASSERT(queued < params.sq_entries, queued);
    auto* const tail = submissions.pointer<unsigned>(params.sq_off.tail);
    const unsigned mask = *submissions.pointer<unsigned>(params.sq_off.ring_mask);
    const unsigned index = (*tail + queued) & mask;
    submissions.pointer<unsigned>(params.sq_off.array)[index] = index;
    io_uring_sqe& entry = entries.pointer<io_uring_sqe>(0)[index];
    std::memset(&entry, 0, sizeof entry);
    entry.user_data = queued++;
    return entry;
  }
};

BatchIo::BatchIo(std::unique_ptr<Ring> ring) : ring_(std::move(ring)) {}
BatchIo::~BatchIo() = default;

std::unique_ptr<BatchIo> BatchIo::open(unsigned calls_max) {
  auto ring = std::make_unique<Ring>();
  ring->fd = static_cast<int>(::syscall(SYS_io_uring_setup, calls_max, &ring->params));
  if (ring->fd < 0) return nullptr;
  const io_uring_params& p = ring->params;
  const bool mapped = ring->submissions.map(ring->fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING) &&
                      ring->completions.map(ring->fd, p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe), IORING_OFF_CQ_RING) &&
                      ring->entries.map(ring->fd, p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  if (!mapped) return nullptr;
  return std::unique_ptr<BatchIo>(new BatchIo(std::move(ring)));
}

void BatchIo::receive(int fd, char* to, std::size_t room) {
  io_uring_sqe& entry = ring_->next();
  entry.opcode = IORING_OP_RECV;
  entry.fd = fd;
  entry.addr = reinterpret_cast<std::uint64_t>(to);
  entry.len = static_cast<std::uint32_t>(room);
  entry.msg_flags = MSG_DONTWAIT;
}

void BatchIo::send(int fd, const char* from, std::size_t size) {
  io_uring_sqe& entry = ring_->next();
  entry.opcode = IORING_OP_SEND;
  entry.fd = fd;
  entry.addr = reinterpret_cast<std::uint64_t>(from);
  entry.len = static_cast<std::uint32_t>(std::min<std::size_t>(size, 1u << 30));
  entry.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
}

std::span<const int> BatchIo::run() {
  Ring& r = *ring_;
  const unsigned wanted = r.queued;
  r.results.assign(wanted, -EAGAIN);
  std::atomic_ref tail(*r.submissions.pointer<unsigned>(r.params.sq_off.tail));
  tail.store(tail.load(std::memory_order_relaxed) + wanted, std::memory_order_release);
  r.queued = 0;
  auto* const head = r.completions.pointer<unsigned>(r.params.cq_off.head);
  const unsigned mask = *r.completions.pointer<unsigned>(r.params.cq_off.ring_mask);
  const std::atomic_ref done(*r.completions.pointer<unsigned>(r.params.cq_off.tail));
  unsigned submitted = 0, reaped = 0;
  while (reaped < wanted) {
    const long n = ::syscall(SYS_io_uring_enter, r.fd, wanted - submitted, wanted - reaped, IORING_ENTER_GETEVENTS, nullptr, 0);
    if (n > 0) submitted += static_cast<unsigned>(n);
    ZARIS_ASSERT(n >= 0 || errno == EINTR || errno == EAGAIN || errno == EBUSY, errno);
    unsigned at = *head;
    for (const unsigned end = done.load(std::memory_order_acquire); at != end; ++at, ++reaped) {
      const io_uring_cqe& entry = r.completions.pointer<io_uring_cqe>(r.params.cq_off.cqes)[at & mask];
      r.results[entry.user_data] = entry.res;
    }
    std::atomic_ref(*head).store(at, std::memory_order_release);
  }
  return r.results;
}

}  // namespace zaris::node
