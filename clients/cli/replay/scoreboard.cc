// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/scoreboard.h"

#include <sys/mman.h>

#include <cerrno>
#include <new>

namespace kvsidecar {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "the counters are shared by processes");

void UnmapScoreboard::operator()(Scoreboard* board) const { munmap(board, sizeof *board); }

Result<SharedScoreboard> make_scoreboard() {
  void* memory =
      mmap(nullptr, sizeof(Scoreboard), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return os_error("mmap of the replay's counters", errno);
  return SharedScoreboard(new (memory) Scoreboard{});
}

}  // namespace kvsidecar
