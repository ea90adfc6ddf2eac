// SPDX-License-Identifier: Apache-2.0
// What goes wrong, by name; set and cleared while the server runs. Any thread (own lock).
//   read.error, write.error ERRNO    the I/O moves nothing and ends with -ERRNO
//   read.short, write.short BYTES    it moves at most that much, and says so
//   read.delay_us, write.delay_us N  it begins that much later (workers stay free meanwhile)
//   read.late_us, write.late_us N    its bytes move at once, its completion comes that much later
//   read.stall, write.stall on|MS    it begins when stalls are released, or after that time
//   read.lost, write.lost on         its bytes move, no completion ever comes
//   jobs.newest_first on             queued jobs are run in reversed order
//   iov.unpinned on                  the registration succeeds, the memory's pinning doesn't:
//                                    -EACCES for each I/O on it
//   iovs.max, rings.max N            more: -EMFILE
//   space.bytes, quota.bytes N       more stored bytes: -ENOSPC, -EDQUOT
//   early.idle on                    prepared I/O also runs without any submit, at idle scans
//   early.again on|off               a worker looks again at the ring of a job it finished (on, as
//                                    upstream)
//   early.random SEED                both of these by chance instead, reproducibly
//   holes.folded on|off              the wrong counts of usrbio.md (on, as upstream)
//   gc.at_unlink on                  chunks of an unlinked file vanish at once, also for who has
//                                    it open
//   stat.delayed on                  a length grown through rings shows after fsync, close or ioctl
//   ioctl.version N                  what the mount answers to who asks (1)
// Further names, all of errno kind, come from the front end: fuse.open and the like.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/usrbio/core/fault_rule.h"
#include "tests/usrbio/core/space.h"

namespace kvsidecar::fake3fs {

struct IoFault {
  uint64_t delay_ns = 0, late_ns = 0;
  bool stall = false;
  uint64_t stall_ns = 0;  // 0: until released
  int error = 0;          // positive errno
  uint64_t bytes_max = UINT64_MAX;
  bool lost = false;
};

class Faults {
 public:
  explicit Faults(const std::vector<std::string>& error_names = {});

  // "off" takes a rule away. kInvalid with a sentence when there is no such name or value.
  Status set(std::string_view name, std::string_view value);
  void clear();                                        // all back to how a server starts
  std::map<std::string, std::string> current() const;  // what was set: name, value

  // Each counts one more time for the rules concerned.
  IoFault on_io(bool read);
  int error_at(std::string_view name);  // positive errno, or 0
  bool strikes(std::string_view name);  // a kSwitch with times: iov.unpinned

  bool is_on(std::string_view name) const;  // a kSwitch without times
  uint64_t number(std::string_view name, uint64_t otherwise) const;
  bool looks_again();            // early.again and early.random decide
  bool looks_at_idle();          // early.idle and early.random decide
  bool scans_when_idle() const;  // whether that can ever be true now
  Space& space() { return space_; }

 private:
  bool hit(std::string_view name, int64_t& value);
  std::optional<bool> by_chance();

  mutable std::mutex lock_;
  std::map<std::string, FaultKind, std::less<>> kinds_;
  std::map<std::string, FaultRule, std::less<>> rules_;
  std::map<std::string, std::string, std::less<>> texts_;
  uint64_t random_state_ = 0;
  Space space_;
};

}  // namespace kvsidecar::fake3fs
