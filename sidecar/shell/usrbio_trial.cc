// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/usrbio_trial.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "ipc/os.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kRememberMs = 600'000;
constexpr long kCrashesMax = 2;
constexpr size_t kFileBytesMax = 4096;

}  // namespace

UsrbioTrial::UsrbioTrial(std::string state_dir, uint64_t now_wall_ms)
    : path_(std::move(state_dir) + "/usrbio"), now_wall_ms_(now_wall_ms) {
  read();
}

UsrbioTrial::~UsrbioTrial() {
  if (!begun_) return;
  notes_.pop_back();
  (void)write();
}

// What isn't such a note is left out: it is a hint, and a clock may have been set back.
void UsrbioTrial::read() {
  const UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  char text[kFileBytesMax + 1] = {};
  if (!fd || ::read(fd.get(), text, kFileBytesMax) <= 0) return;
  std::istringstream lines(text);
  for (Note note; lines >> note.client >> note.wall_ms;)
    if (note.wall_ms <= now_wall_ms_ && now_wall_ms_ - note.wall_ms < kRememberMs)
      notes_.push_back(note);
}

bool UsrbioTrial::is_dangerous(const std::string& client) const {
  const auto ended = notes_.end() - (begun_ ? 1 : 0);
  return std::count_if(notes_.begin(), ended,
                       [&](const Note& note) { return note.client == client; }) >= kCrashesMax;
}

Status UsrbioTrial::begin(const std::string& client) {
  if (begun_) notes_.pop_back();
  notes_.push_back({client, now_wall_ms_});
  begun_ = true;
  return write();
}

Status UsrbioTrial::write() const {
  const std::string temporary = path_ + ".new";
  std::string text;
  for (const Note& note : notes_) text += note.client + " " + std::to_string(note.wall_ms) + "\n";
  const auto failed = [&] {
    return Status(Code::kUnavailable, path_ + " can't be written: " + std::strerror(errno) +
                                          "; give daemon.state_dir room and rights");
  };
  {
    const UniqueFd fd(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return failed();
    const ssize_t put = ::write(fd.get(), text.data(), text.size());
    if (put >= 0 && put != static_cast<ssize_t>(text.size())) errno = ENOSPC;
    if (put != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0) return failed();
  }
  return ::rename(temporary.c_str(), path_.c_str()) == 0 ? Status() : failed();
}

}  // namespace kvsidecar
