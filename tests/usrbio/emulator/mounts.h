// SPDX-License-Identifier: Apache-2.0
// The folders that pass for mounts, and in each the folder of links by which memory is registered:
// a plain one here, so that links made by others than this library are found in it too.
#pragma once
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace kvsidecar::emulator {

class Mounts {
 public:
  // folders: separated by ':'. Those that exist get their folder of links.
  explicit Mounts(const std::string& folders);

  // The one that holds this resolved path; empty: none.
  std::string holding(const std::string& path) const;
  // Where its links lie; empty: no mount is called so.
  std::string links(const std::string& mount) const;

  // All links vanish with a daemon, and their folder comes back with the next.
  void take_links_away();
  void make_links_folders();
  // Holds links' folder open from now on, once per mount, as the real library does, which is how
  // the daemon learns of its end.
  void keep_open(const std::string& mount);

 private:
  std::vector<std::string> mounts_;
  std::mutex lock_;
  std::set<std::string> kept_open_;
};

}  // namespace kvsidecar::emulator
