// SPDX-License-Identifier: Apache-2.0
// The operating system, one owner type each: file descriptors, mappings, sealed memfds, fd passing,
// pidfds, futex. Factories return Result; no half-built objects. Any thread, one at a time per
// object.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipc/result.h"

namespace kvsidecar {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

enum class Access : uint8_t { kReadOnly, kReadWrite };

// A shared mapping of an fd (Boost.Interprocess mapped_region inside). Empty = nothing mapped.
class MappedMemory {
 public:
  MappedMemory();
  MappedMemory(MappedMemory&&) noexcept;
  MappedMemory& operator=(MappedMemory&&) noexcept;
  ~MappedMemory();
  static Result<MappedMemory> map(int fd, uint64_t offset, uint64_t bytes, Access access);
  std::byte* data() const;
  size_t size() const;

 private:
  struct Region;
  std::unique_ptr<Region> region_;
};

// A memfd of that size: CLOEXEC, blocks allocated, sealed against shrinking, growing and further
// seals.
Result<UniqueFd> make_sealed_memfd(const char* name, uint64_t bytes);
Result<UniqueFd> make_memfd(const char* name, uint64_t bytes);  // allocated, not yet sealed
Status seal(int fd, bool future_writes);  // SHRINK|GROW|SEAL, and FUTURE_WRITE if asked
// What an fd really is: size, allocated blocks, seals. kInvalid with a sentence when it isn't a
// regular file.
struct FileFacts {
  uint64_t bytes, allocated_bytes;
  int seals;
  bool hugetlb;
};  // seals -1 = not sealable
Result<FileFacts> file_facts(int fd);

// True when the fd is memory: a memfd, or a file of tmpfs or hugetlbfs. Never waits for anybody.
bool is_memory_file(int fd);
// Closes an fd that a peer chose, in a thread of its own: the last close of much memory takes long,
// and that of a file whose file system is a process or another machine waits for that one, for ever
// if it wants. When a few such threads wait, the rest waits for one of them: until who keeps them
// is gone, at worst.
void discard_fd(UniqueFd fd);
void discard_fds(std::vector<UniqueFd> fds);  // the same

// Closes a peer's socket. What it has sent and nobody has read may carry fds, that the kernel would
// close with the socket, in this thread: so they are taken out and discarded first.
void close_peer_socket(UniqueFd socket);

// One SOCK_SEQPACKET message with fds. receive: discards everything and fails on truncation or more
// fds than asked.
Status send_message(int socket, std::span<const std::byte> bytes, std::span<const int> fds);
// Bytes received; 0 = the peer hung up; kBusy when nothing is there (non-blocking sockets).
Result<size_t> receive_message(int socket, std::span<std::byte> buffer, std::vector<UniqueFd>& fds,
                               size_t fds_max);

struct PeerIdentity {
  int pid;
  uint32_t uid, gid;
  std::vector<uint32_t> groups;
};
Result<PeerIdentity> peer_identity(int socket);  // SO_PEERCRED and SO_PEERGROUPS
Result<UniqueFd> open_pidfd(int pid);            // checks /proc start time before and after
Result<UniqueFd> peer_pidfd(int socket,
                            int pid);  // SO_PEERPIDFD where the kernel has it, else open_pidfd
bool pidfd_exited(int pidfd);          // poll, no wait

// futex on shared memory. wait: returns when *word != expected, woken, or after timeout_ns.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t timeout_ns);
void futex_wake(std::atomic<uint32_t>& word);

Result<UniqueFd> make_eventfd();
void eventfd_signal(int fd);
void eventfd_drain(int fd);  // of a bell too
// A bell is readable from ring_bell() until its 8 bytes are read. For fds that a peer holds too: he
// may make an eventfd full and blocking, and who signals it waits for him; here nobody ever waits.
Result<UniqueFd> make_bell();
void ring_bell(int fd);
void random_bytes(std::span<std::byte> out);
uint64_t monotonic_ns();

// Between two looks of a spinning thread: leaves the core's other thread alone for a moment.
inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace kvsidecar
