// SPDX-License-Identifier: Apache-2.0
// A Unix socket on which a test tells the running server what is to go wrong, and asks what it has
// done. One command a line, each answered by lines of which the last is "ok" or "error: WHY":
//   set NAME VALUE      a fault (see core/faults.h), and "fuse.OP ERRNO", "fuse.OP.after ERRNO"
//   clear               no faults any more; what stalled goes on
//   release             what stalled goes on
//   gc                  the chunks of unlinked files vanish
//   sync                all lengths show, as after the periodic sync
//   faults, counts      "NAME VALUE" lines
//   wait NAME N [MS]    until that count is at least N; "error: …" after MS (20 s)
#pragma once
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "tests/usrbio/mini3fs/file_system.h"

namespace kvsidecar::fake3fs {

class Control {
 public:
  static Result<std::unique_ptr<Control>> listen(const std::string& path, FileSystem& fs);
  ~Control();

 private:
  Control(UniqueFd socket, FileSystem& fs) : socket_(std::move(socket)), fs_(fs) {}
  void accept_all();
  void serve(int connection);
  std::string answer_to(const std::string& line);

  const UniqueFd socket_;
  FileSystem& fs_;
  std::thread acceptor_;
  // The acceptor's alone until it has ended.
  std::list<UniqueFd> connections_;  // open until the end, so that it can hang them up
  std::list<std::thread> threads_;
};

}  // namespace kvsidecar::fake3fs
