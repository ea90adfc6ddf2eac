// SPDX-License-Identifier: Apache-2.0
// Everything that stands on one life of a 3FS mount: the client, its rings and memory, the files
// and the store of segment files on them. When the mount goes, all of it goes, and another is made.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "sidecar/store/file_store.h"
#include "sidecar/store/usrbio/mount_door.h"
#include "sidecar/store/usrbio/shared_block.h"

namespace kvsidecar {

// Both make calls that wait for the fuse daemon.
struct UsrbioOpeners {
  std::function<Result<std::unique_ptr<usrbio::Client>>(const std::string& root)> client;
  // Where the 3FS that holds the path is mounted; empty: on none.
  std::function<Result<std::string>(const std::string& path)> mount_point;
};

struct UsrbioStoreOptions {
  FileStoreOptions files;  // what is for 3FS is filled in
  UsrbioOpeners openers;
  std::string shm_directory = "/dev/shm", pool = "test";  // of the buffers' file
  std::string why;  // how this store came to be chosen, for describe(); may be empty
  uint32_t ring_entries = 128;
  uint64_t heartbeat_ns = 1'000'000'000;
  uint64_t hung_ns = 5'000'000'000;   // a heartbeat that takes longer: the mount hangs
  uint64_t lost_ns = 75'000'000'000;  // see UsrbioTransfers::Options
  uint64_t grace_ns = 1'000'000'000;
  uint64_t reopen_ns = 1'000'000'000;       // from the first try to the next; doubles up to ten
  uint64_t open_wait_ns = 30'000'000'000;   // the most that opening the store takes
  uint64_t check_wait_ns = 10'000'000'000;  // the most that one I/O takes there
  bool own_thread = true;  // false: the mount thread is turned by the owner (tests)
};

struct Mounted {
  UniqueFd root;
  std::unique_ptr<SharedBlock> block;
  std::unique_ptr<usrbio::Client> client;
  std::unique_ptr<UsrbioTransfers> transfers;
  std::unique_ptr<MountDoor> door;
  std::unique_ptr<FileStore> files;
};

struct MountedTools {
  Clock& clock;
  FaultPoints& faults;
  StoreLog log;
  UsrbioCounters& counters;
  MountThread& thread;
};

// On the mount thread. Claims the folder, and writes and reads a block through each ring: what
// doesn't work shows here. `number`: of the buffers' file. The error says what and the remedy.
// Never touches a root that isn't on a living 3FS.
Result<std::unique_ptr<Mounted>> open_mounted(const UsrbioStoreOptions& options,
                                              const MountedTools& tools, uint32_t number);
// On the mount thread, once files->ended().
void close_mounted(std::unique_ptr<Mounted> mounted);

// Jobs end as a whole, so they are small; a write waits for nobody.
usrbio::RingOptions ring_options(TransferClass kind, uint32_t entries);

}  // namespace kvsidecar
