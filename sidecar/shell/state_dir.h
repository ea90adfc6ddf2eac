// SPDX-License-Identifier: Apache-2.0
// The state directory: what must survive the daemon. The node's uuid, the epoch counter, and per
// namespace its canonical form with its generation. Each file is replaced whole: a temporary file,
// fsync, rename, fsync of the directory; a kill at any instruction leaves the old or the new one.
// Blocking: the conductor calls it in errands, one at a time. Fault points: state.open,
// state.write, state.fsync, state.rename, state.fsync_dir.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "ipc/identity.h"
#include "ipc/os.h"
#include "sidecar/env.h"

namespace kvsidecar {

class StateDir {
 public:
  struct SavedNamespace {
    std::vector<std::byte> encoded;  // canonical form
    uint64_t generation = 0;
  };

  // Makes and locks the directory, removes temporary files, makes the node's uuid (store/
  // node_folder.h) at first. kBusy
  // when another daemon has it; kCorrupt when a file isn't what was written.
  static Result<StateDir> open(const std::string& path, Clock& clock, FaultPoints& faults);
  const std::array<std::byte, 16>& node() const { return node_; }

  // The next epoch: larger than any before, on disk before it is returned. 32 bits.
  Result<uint64_t> next_epoch();
  // Keeps the higher generation when the namespace is there already, and returns it. kCorrupt when
  // the file is damaged: its generation is not known, and must not begin again.
  Result<uint64_t> save_namespace(const Hash128& id, Bytes encoded, uint64_t generation);
  // Removes a namespace that was never cleared (generation 1); leaves any other.
  void forget_namespace(const Hash128& id);
  // All namespaces. Damaged files are left out and counted in `damaged`.
  Result<std::vector<SavedNamespace>> load_namespaces(size_t& damaged) const;

 private:
  Status replace(const std::string& name, Bytes content) const;
  Result<SavedNamespace> load_namespace(const std::string& name) const;

  std::string path_;
  UniqueFd lock_;
  std::array<std::byte, 16> node_{};
  Clock* clock_ = nullptr;
  FaultPoints* faults_ = nullptr;
};

}  // namespace kvsidecar
