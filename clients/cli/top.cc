// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>

#include "clients/cli/account.h"
#include "clients/cli/commands.h"
#include "clients/cli/print.h"
#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr const char* kHomeAndClear = "\x1b[H\x1b[J";

// A terminal that gives keys at once and unechoed, until the end.
class KeyInput {
 public:
  KeyInput() : active_(isatty(STDIN_FILENO) == 1 && tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!active_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~KeyInput() {
    if (active_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  KeyInput(const KeyInput&) = delete;
  KeyInput& operator=(const KeyInput&) = delete;

  // Waits that long; true when q (or the end of input) came.
  bool quit_within(uint32_t wait_ms) const {
    pollfd input{active_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&input, 1, static_cast<int>(wait_ms)) <= 0) return false;
    char key = 'q';
    return read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q';
  }

 private:
  termios before_{};
  bool active_;
};

struct Sample {
  std::string json;
  Account account;
  uint64_t at_ns = 0;
};

Result<Sample> take_sample(Asker& asker) {
  auto text = asker.stat(KVS_STAT_STATUS);
  if (!text) return text.status();
  auto account = parse_account(*text);
  if (!account) return account.status();
  return Sample{text.take(), account.take(), monotonic_ns()};
}

void show(const Target& target, const Sample& before, const Sample& now, bool terminal) {
  const double seconds = static_cast<double>(now.at_ns - before.at_ns) / 1e9;
  const std::string text = target.json ? top_json(before.account, now.account, seconds, now.json)
                                       : top_text(before.account, now.account, seconds);
  std::printf("%s%s\n", terminal ? kHomeAndClear : "", text.c_str());
  if (terminal) std::printf("q ends it\n");
  std::fflush(stdout);
}

}  // namespace

int run_top(const Target& target, const TopOptions& options) {
  auto asker = Asker::open(target, true);
  if (!asker) return fail(target, "top", asker.status());
  const bool terminal = isatty(STDOUT_FILENO) == 1 && !target.json;
  auto before = take_sample(*asker);
  if (!before) return fail(target, "top", before.status());
  const KeyInput keys;
  // Into a file or a pipe one reading is what is wanted, unless more are asked for.
  const uint32_t count = options.count == 0 && !terminal ? 1 : options.count;
  for (uint32_t shown = 0; count == 0 || shown < count; ++shown) {
    if (keys.quit_within(options.interval_ms)) return 0;
    auto now = take_sample(*asker);
    if (now) {
      show(target, *before, *now, terminal);
      before = now;
    } else if (terminal) {
      std::printf("%sno daemon at the moment: %s\n", kHomeAndClear, now.status().text().c_str());
      std::fflush(stdout);
    } else {
      return fail(target, "top", now.status());
    }
  }
  return 0;
}

}  // namespace kvsidecar
