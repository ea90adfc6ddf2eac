// SPDX-License-Identifier: Apache-2.0
// In what implementations of the C interface may differ. Each trait has its tests: what is true for
// one and false for another is asserted both ways, never skipped silently.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar::abi {

struct Traits {
  std::string name;

  // The library's own half. True for the genuine one.
  bool dies = false;     // some bad arguments end the process; else they return -EINVAL
  bool throws = false;   // a path that doesn't exist, or block_size > size: an exception; else -1
                         // and -EINVAL
  bool poisons = false;  // close without dereg_fd: the number can't be registered until dereg_fd
  bool duplicates = false;  // reg_fd answers with a duplicate's number, which is registered too
  bool leaks_rings_of_higher_flags = false;  // flags >= 2: iordestroy leaves the ring registered
  bool leaves_shm_after_failed_map = false;  // iovcreate too large to map leaves its file
  bool opened_iov_unregisters = false;  // iovdestroy of an opened iov ends its owner's registration
  bool takes_wrapping_lengths = false;  // prep_io's range check overflows
  bool shows_shm_names = false;         // files are called /dev/shm/hf3fs-iov-*
  bool ends_on_malformed_log = false;   // HF3FS_USRBIO_LIB_LOG malformed: exit(1) inside dlopen
  bool allocates_per_descriptor = false;

  // The fuse daemon's half.
  uint64_t chunk_bytes = 1 << 20;
  bool settable_faults = false;      // Subject::set_faults works
  bool restarts = false;             // Subject::kill_daemon and restart_daemon work
  bool folds_holes_wrongly = false;  // across the requests of a read job
  bool mount_is_real = false;        // a dead daemon shows in every system call (ENOTCONN)
};

Traits traits_of_builtin();  // our client behind the same 21 functions
Traits traits_of_genuine();  // 3FS's own library, and what behaves like it

}  // namespace kvsidecar::abi
