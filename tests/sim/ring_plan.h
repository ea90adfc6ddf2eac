// SPDX-License-Identifier: Apache-2.0
// What a store on USRBIO is like in one run, and what of it happened.
#pragma once
#include <cstdint>

namespace kvsidecar::sim {

// Chances in a thousand: of a job, where nothing else is said.
struct RingFaults {
  uint32_t stalls = 0;         // it ends when its requests are overdue
  uint32_t lost = 0;           // it never ends, until the fuse daemon dies
  uint32_t fails = 0;          // -EIO for every I/O of it, whatever it has moved
  uint32_t cut = 0;            // of a read: it ends early, and its count says so
  uint32_t tail_not_read = 0;  // of a read: its count is whole, its last bytes were never read
  uint32_t dies = 0;           // of a change of faults, and of reads that begin: the fuse daemon
  uint32_t vanishes = 0;       // of a mount that comes back: segments are gone
  uint32_t denied = 0;         // of a mount: it can't use the host pool, whose pages are copied
};

struct RingPlan {
  bool used = false;
  uint32_t entries = 8;  // of each ring
  uint32_t job_max = 0;  // I/O in one job; 0 = all that is prepared
  RingFaults faults;
};

struct RingCounts {
  uint64_t reads = 0, writes = 0;
  uint64_t jobs = 0, groups = 0;  // groups: jobs of more than one I/O
  uint64_t overtaken = 0;         // jobs that ended after one that began later
  uint64_t early = 0;             // I/O that ran before its submit
  uint64_t full = 0;              // I/O that had to wait for a ring
  uint64_t stalled = 0, lost = 0, failed = 0, cut = 0, tails = 0, no_space = 0;
  uint64_t mounts_lost = 0, mounts_back = 0, vanished = 0, denied = 0;
  uint64_t ended_with_mount = 0;  // I/O in flight when their mount was lost

  void add(const RingCounts& other);
};

struct RingCount {
  const char* what;
  uint64_t RingCounts::*count;
};
inline constexpr RingCount kRingCounts[] = {
    {"reads", &RingCounts::reads},
    {"writes", &RingCounts::writes},
    {"jobs", &RingCounts::jobs},
    {"of several I/O", &RingCounts::groups},
    {"overtaken", &RingCounts::overtaken},
    {"I/O that ran before their submit", &RingCounts::early},
    {"times a ring was full", &RingCounts::full},
    {"jobs that stalled", &RingCounts::stalled},
    {"lost", &RingCounts::lost},
    {"failed", &RingCounts::failed},
    {"reads cut short", &RingCounts::cut},
    {"reads without their tail", &RingCounts::tails},
    {"writes without space", &RingCounts::no_space},
    {"mounts lost", &RingCounts::mounts_lost},
    {"back", &RingCounts::mounts_back},
    {"with segments gone", &RingCounts::vanished},
    {"that could not use the host pool", &RingCounts::denied},
    {"I/O that ended with their mount", &RingCounts::ended_with_mount},
};

inline void RingCounts::add(const RingCounts& other) {
  for (const RingCount& one : kRingCounts) this->*one.count += other.*one.count;
}

}  // namespace kvsidecar::sim
