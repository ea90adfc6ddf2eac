// SPDX-License-Identifier: Apache-2.0
// One way to speak USRBIO, 3FS's I/O over shared memory: the site's libhf3fs_api_shared.so
// (open_library) or our own client of the same protocol (open_builtin). Source: the protocol's
// facts, see the README's section on 3FS.
//
// Two kinds of calls. Those marked [mount] are round trips to the fuse daemon: they may block
// without limit when it hangs, and it reclaims what a dead process left by the id of the thread
// that made it. So one long-lived thread makes them all, and never the store worker. The others
// touch shared memory only and never block; one thread (the store worker) makes them for a ring.
//
// A deadline cancels nothing: what was prepared may read or write its memory until its completion
// came or the fuse daemon is dead. Memory, File and Ring live until then.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "ipc/result.h"

namespace kvsidecar::usrbio {

struct Completion {
  uint64_t user = 0;
  // Bytes moved, or -errno. Fewer than asked: the end of what is stored, or a hole. "All" is no
  // proof that all was read: only the page's digest is. Never more than asked: a server that counts
  // holes wrongly and says so ends that I/O with -EIO.
  int64_t result = 0;
};

struct RingOptions {
  uint32_t entries = 64;  // at least 1
  bool for_read = true;
  // 0: a job takes all that is queued; below 0: at most that many. A job completes as a whole.
  // Above 0 is refused: a remainder would wait for ever.
  int32_t io_depth = 0;
};

// Shared memory that the fuse daemon has mapped too.
class Memory {
 public:
  virtual ~Memory() = default;  // [mount]
  std::span<std::byte> bytes() const { return bytes_; }

 protected:
  explicit Memory(std::span<std::byte> bytes) : bytes_(bytes) {}

 private:
  const std::span<std::byte> bytes_;
};

// An open file of the mount that rings may address. Doesn't own the descriptor, which must outlive
// it: closing one that is registered poisons its number.
class File {
 public:
  virtual ~File() = default;  // [mount]
  int fd() const { return fd_; }

 protected:
  explicit File(int fd) : fd_(fd) {}

 private:
  const int fd_;
};

class Ring {
 public:
  virtual ~Ring() = default;  // [mount]
  // The I/O may run at once, before submit(): what a write takes is final before this call. The
  // range lies within `memory`; bytes is 1 or more. 0; -EAGAIN: the ring takes no more now, which
  // says nothing of how many are outstanding; another -errno: refused. Unless 0, nothing was taken.
  virtual int prepare(const Memory& memory, std::byte* address, uint64_t bytes, const File& file,
                      uint64_t offset, uint64_t user) = 0;
  virtual void submit() = 0;  // after prepare(); nothing else makes the fuse daemon look
  virtual size_t poll(std::span<Completion> into) = 0;  // how many were filled, in any order
  virtual bool has_completion() const = 0;              // poll() may find something
  // Not OK once the other side wrote what can't be (an index out of range, a completion of nothing)
  // or the library threw: prepare() is refused with -EPROTO from then on and poll() finds nothing
  // more; what is outstanding counts as I/O whose completion never comes.
  virtual Status fault() const { return {}; }
};

class Client {
 public:
  virtual ~Client() = default;                 // after all that it made
  virtual std::string describe() const = 0;    // "builtin" or "library /path/of/it"; any thread
  virtual const std::string& mount_point() const = 0;
  // What opening it changed in this process, as finished sentences for the log; empty: nothing.
  virtual std::string notes() const { return {}; }
  // [mount] The mapped whole of a regular file directly under /dev/shm (a path, not a symlink). No
  // memory is copied, the file stays the caller's. The fuse daemon pins it later: whether it could
  // shows only in an I/O, which ends with -EACCES if not.
  virtual Result<std::unique_ptr<Memory>> register_memory(const std::string& path,
                                                          std::span<std::byte> mapped) = 0;
  virtual Result<std::unique_ptr<Ring>> make_ring(const RingOptions& options) = 0;  // [mount]
  virtual Result<std::unique_ptr<File>> register_file(int fd) = 0;                  // [mount]
  // [mount] Whether the mount that this client was opened on still answers, and is the same one:
  // false once the fuse daemon died, also when another has been mounted in its place.
  virtual bool alive() = 0;
};

// [mount] kInvalid / kUnavailable / kDenied with a sentence that names what is wrong and the
// remedy. `path`: anything below the mount point.
Result<std::unique_ptr<Client>> open_builtin(const std::string& path);
// library: a file's path, a folder that holds it, or empty = what the loader finds.
Result<std::unique_ptr<Client>> open_library(const std::string& path, const std::string& library);

// [mount] Where the 3FS that holds the path is mounted; empty: it lies on none. Errors: the path
// can't be looked at, or its mount is dead.
Result<std::string> mount_point_of(const std::string& path);

}  // namespace kvsidecar::usrbio
