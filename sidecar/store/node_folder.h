// SPDX-License-Identifier: Apache-2.0
// This node's folder of a store: <root>/<node uuid hex>.<number>/, claimed by mkdir. The uuid lies
// in the node's state directory and is made at the first start. The folder's file `owner` names the
// node and the live daemon (uuid, host, pid); it is held with flock as long as this object lives. A
// folder that names another node, or that a live daemon holds, is refused with a sentence.
//
// Blocking; used when the store is opened. What a crash leaves: nothing that the next start minds.
#pragma once
#include <string>

#include "ipc/identity.h"
#include "ipc/os.h"

namespace kvsidecar {

class NodeFolder {
 public:
  // number: which of the node's stores on that root this is.
  // root_fd: what has the root open, where its name isn't to be trusted; -1: none.
  static Result<NodeFolder> claim(const std::string& root, const std::string& state_directory,
                                  uint32_t number, int root_fd = -1);
  const std::string& path() const { return path_; }
  const Hash128& node() const { return node_; }
  int fd() const { return directory_.get(); }  // for openat
  // Whoever closes it gives the folder up: another may claim it.
  UniqueFd take_claim() { return std::move(owner_); }
  // This life's epoch: larger than any before in this folder; persisted before it is returned.
  uint32_t epoch() const { return epoch_; }

 private:
  Status take_owner_file();
  Status take_epoch();
  std::string path_;
  Hash128 node_;
  UniqueFd directory_, owner_;
  uint32_t epoch_ = 0;
};

// Whether this user may make its folder in that root, or has it there already; the error names key,
// value, user and remedy. Changes nothing.
Status check_store_root(const std::string& root, const std::string& state_directory);

// Whose permissions count, for messages: "user kvsidecar (uid 998)".
std::string own_user();

// The node's uuid from <state_directory>/node; made and persisted when there is none.
Result<Hash128> node_uuid(const std::string& state_directory);

}  // namespace kvsidecar
