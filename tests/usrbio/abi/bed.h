// SPDX-License-Identifier: Apache-2.0
// The fixture of the C interface's tests: the subject, a folder of the test's own on its mount, and
// owners for what the interface makes.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ipc/os.h"
#include "tests/usrbio/abi/subject.h"

namespace kvsidecar::abi {

// The one of this program; set by main before the tests.
Subject& subject();
void set_subject(std::unique_ptr<Subject> made);

inline const void* tag(uint64_t number) { return reinterpret_cast<const void*>(number); }

// Zeroed structs that their library frees again.
struct Iov : hf3fs_iov {
  Iov() : hf3fs_iov{} {}
  Iov(const Iov&) = delete;
  Iov& operator=(const Iov&) = delete;
  ~Iov() { subject().library().iovdestroy(this); }
  std::string uuid() const;
  std::string link() const;  // where it is registered
};

struct Ring : hf3fs_ior {
  Ring() : hf3fs_ior{} {}
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { subject().library().iordestroy(this); }
};

// A descriptor registered for its life.
class Registered {
 public:
  explicit Registered(int fd) : fd_(fd), answer_(subject().library().reg_fd(fd, 0)) {}
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  ~Registered() { subject().library().dereg_fd(fd_); }
  int answer() const { return answer_; }

 private:
  const int fd_, answer_;
};

// Sets the daemon's faults for this test; skips it with a sentence where that can't be done.
#define KVS_FAULTS(text)                                                              \
  do {                                                                                \
    if (!traits_.settable_faults) GTEST_SKIP() << traits_.name << " takes no faults"; \
    ASSERT_TRUE(::kvsidecar::abi::subject().set_faults(text)) << (text);              \
  } while (false)

class Bed : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::string& mount() const { return subject().mount(); }
  uint64_t chunk() const { return traits_.chunk_bytes; }

  // No faults any more, and what stalls goes on. In this order: what the daemon hasn't looked at
  // yet must not stall afterwards.
  static void let_go() {
    subject().set_faults("");
    subject().release_stalled();
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  UniqueFd open(const std::string& name, int flags) const;
  // A new file with these bytes, written through the mount and settled.
  UniqueFd file(const std::string& name, std::span<const uint8_t> bytes) const;
  // A new file of so many bytes of which only the given chunks were ever written.
  UniqueFd sparse_file(const std::string& name, uint64_t bytes,
                       const std::vector<uint64_t>& chunks) const;

  // One request on a ring of its own, waited for: its result.
  int64_t one_read(const hf3fs_iov& iov, uint64_t iov_offset, int fd, uint64_t offset,
                   uint64_t bytes, uint64_t flags = 0) const;
  int64_t one_write(const hf3fs_iov& iov, uint64_t iov_offset, int fd, uint64_t offset,
                    uint64_t bytes) const;

  void make(Iov& iov, size_t bytes, size_t block_size = 0) const;
  void make(Ring& ring, int entries, bool for_read = true, int io_depth = 0, int timeout = 0,
            uint64_t flags = 0) const;
  int prepare_read(const Ring& ring, const hf3fs_iov& iov, uint64_t iov_offset, int fd,
                   uint64_t offset, uint64_t bytes, uint64_t user) const;
  // So many completions, however long they take.
  std::vector<hf3fs_cqe> wait(const Ring& ring, int count) const;
  // What is there now.
  std::vector<hf3fs_cqe> poll(const Ring& ring) const;

  const Library& library_ = subject().library();
  const Traits& traits_ = subject().traits();
  std::string folder_;
};

// Bytes that tell where they came from.
std::vector<uint8_t> pattern(uint64_t bytes, uint64_t seed = 1);
timespec from_now_ms(int64_t ms);  // CLOCK_REALTIME
bool has_passed(const timespec& time);

// What became of a call in a process of its own.
struct Ending {
  enum class Kind { kReturned, kThrew, kSignal, kExit } kind = Kind::kReturned;
  int value = 0;  // what was returned (its low byte as signed), the signal, the exit code
};
Ending in_a_child(const std::function<int()>& call);

// Descriptors of this process that are open now, and those without CLOEXEC.
size_t open_descriptors();
size_t inherited_descriptors();

}  // namespace kvsidecar::abi
