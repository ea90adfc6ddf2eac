// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/library_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sidecar/store/usrbio/io_check.h"

namespace kvsidecar::usrbio {
namespace {

constexpr int kAnyNuma = -1;
constexpr int kThrown = -EPROTO;

Status library_failed(const LoadedLibrary& library, const std::string& what, int error) {
  if (error == -kThrown)
    return {Code::kUnavailable, what + ": " + library.functions.path + " threw an exception"};
  return os_error(what + " by " + library.functions.path, error, Code::kUnavailable);
}

}  // namespace

Result<std::unique_ptr<Memory>> LibraryMemory::make(const LoadedLibrary& library,
                                                    std::shared_ptr<Mount> mount,
                                                    const std::string& path,
                                                    std::span<std::byte> mapped) {
  const std::string point = mount->point();
  auto registered = register_shared_memory(std::move(mount), path, mapped.size());
  if (!registered) return registered.status();
  abi::Iov iov{};
  // Block size 0: an I/O that crosses a block's border would fail.
  const int made = guarded(kThrown, [&] {
    return library.functions.iov_wrap(&iov, mapped.data(), registered->id.data(), point.c_str(),
                                      mapped.size(), 0, kAnyNuma);
  });
  if (made != 0) return library_failed(library, "wrapping " + path, -made);
  return std::unique_ptr<Memory>(new LibraryMemory(mapped, registered.take(), iov));
}

Result<std::unique_ptr<File>> LibraryFile::make(std::shared_ptr<LoadedLibrary> library,
                                                const Mount& mount, int fd) {
  const auto identity = mount.identify(fd);
  if (!identity) return identity.status();
  if (library->registered_fds.contains(fd))
    return invalid("descriptor " + std::to_string(fd) + " is registered already");
  const auto& functions = library->functions;
  const auto reg = [&] { return guarded(-kThrown, [&] { return functions.reg_fd(fd, 0); }); };
  int made = reg();
  if (made == EINVAL) {
    // A file of that number was closed without being deregistered, or its mount had died first:
    // the library still keeps it. Deregistering the number frees it now that a live file has it.
    guarded(0, [&] { return functions.dereg_fd(fd), 0; });
    made = reg();
  }
  if (made > 0)
    return library_failed(*library, "registering descriptor " + std::to_string(fd), made);
  ::fcntl(-made, F_SETFD, FD_CLOEXEC);  // the library's own dup
  library->registered_fds.insert(fd);
  return std::unique_ptr<File>(new LibraryFile(std::move(library), fd, *identity));
}

LibraryFile::~LibraryFile() {
  library_->registered_fds.erase(fd());
  guarded(0, [this] { return library_->functions.dereg_fd(fd()), 0; });
}

Result<std::unique_ptr<Ring>> LibraryRing::make(std::shared_ptr<LoadedLibrary> library,
                                                const Mount& mount, const RingOptions& options) {
  const Status checked = check_ring_options(options);
  if (!checked.ok()) return checked;
  abi::Ior ior{};
  // Timeout 0: another one is broken with io_depth below 0. Flags 0: others leak the ring.
  const int made = guarded(kThrown, [&] {
    return library->functions.ior_create(&ior, mount.point().c_str(),
                                         static_cast<int>(options.entries), options.for_read,
                                         options.io_depth, 0, kAnyNuma, 0);
  });
  if (made != 0) return library_failed(*library, "making a ring on " + mount.point(), -made);
  std::unique_ptr<LibraryRing> ring(new LibraryRing(std::move(library), options));
  ring->ior_ = ior;
  return std::unique_ptr<Ring>(std::move(ring));
}

LibraryRing::~LibraryRing() {
  guarded(0, [this] { return library_->functions.ior_destroy(&ior_), 0; });
}

void LibraryRing::end_with(const std::string& what) {
  fault_ = {Code::kIoError, library_->functions.path + " " + what +
                                ": the ring is given up; use the builtin client if that happens "
                                "again"};
}

int LibraryRing::prepare(const Memory& memory, std::byte* address, uint64_t bytes, const File& file,
                         uint64_t offset, uint64_t user) {
  if (!fault_.ok()) return -EPROTO;
  const FileIdentity& identity = static_cast<const LibraryFile&>(file).identity();
  const CheckedIo checked = check_io(memory.bytes(), address, bytes, offset,
                                     for_read_ ? identity.readable : identity.writable);
  if (checked.error != 0) return checked.error;
  if (polls_until_try_ > 0) return -EAGAIN;
  const auto taken = slots_.take(user, bytes);
  if (!taken) return -EAGAIN;
  const abi::Iov& iov = static_cast<const LibraryMemory&>(memory).iov();
  bool threw = false;
  int index = kThrown;
  try {
    index = library_->functions.prep_io(&ior_, &iov, for_read_, address, file.fd(), offset, bytes,
                                        reinterpret_cast<const void*>(taken->token));
  } catch (...) {
    threw = true;
  }
  if (index >= 0) return 0;
  if (threw) {
    // It may have taken the I/O or not: the slot stays taken.
    end_with("threw an exception where an I/O was prepared");
    return -EPROTO;
  }
  slots_.finish(taken->token);
  if (index == -EAGAIN) polls_until_try_ = kPollsBetweenTries;
  return index;
}

void LibraryRing::submit() {
  if (!fault_.ok()) return;
  const int done = guarded(kThrown, [this] { return library_->functions.submit_ios(&ior_); });
  if (done != 0) end_with("could not submit (" + std::string(std::strerror(-done)) + ")");
}

bool LibraryRing::drain() {
  if (!fault_.ok()) return false;
  std::array<abi::Cqe, 64> ready{};
  static_assert(ready.size() == std::tuple_size_v<decltype(drained_)>);
  static constexpr timespec kLongAgo{0, 0};
  const int got = guarded(kThrown, [&] {
    return library_->functions.wait_for_ios(&ior_, ready.data(), static_cast<int>(ready.size()), 0,
                                            &kLongAgo);
  });
  if (got < 0 || static_cast<size_t>(got) > ready.size()) {
    end_with("gave " + std::to_string(got) + " completions");
    return false;
  }
  drained_begin_ = drained_end_ = 0;
  for (int i = 0; i < got; ++i) {
    const auto io = slots_.finish(reinterpret_cast<uint64_t>(ready[static_cast<size_t>(i)].user));
    if (!io) {
      end_with("gave a completion of nothing that is in flight");
      break;
    }
    drained_[drained_end_++] = {io->user,
                                checked_result(ready[static_cast<size_t>(i)].result, io->bytes)};
  }
  if (drained_end_ > 0) polls_until_try_ = 0;
  return drained_end_ > 0;
}

size_t LibraryRing::poll(std::span<Completion> into) {
  if (polls_until_try_ > 0) --polls_until_try_;
  size_t count = 0;
  while (count < into.size() && (drained_begin_ < drained_end_ || drain()))
    into[count++] = drained_[drained_begin_++];
  return count;
}

bool LibraryRing::has_completion() const {
  // Only the library knows: what it has is taken out and kept for poll().
  return drained_begin_ < drained_end_ || const_cast<LibraryRing*>(this)->drain();
}

}  // namespace kvsidecar::usrbio
