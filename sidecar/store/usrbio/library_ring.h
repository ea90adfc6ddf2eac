// SPDX-License-Identifier: Apache-2.0
// Memory, files and rings of the library client: each call's arguments are checked before the
// library sees them, so that what would crash it can't happen, and whatever it throws ends here.
#pragma once
#include <array>
#include <memory>
#include <set>

#include "sidecar/store/usrbio/client.h"
#include "sidecar/store/usrbio/library_functions.h"
#include "sidecar/store/usrbio/mount.h"
#include "sidecar/store/usrbio/registration.h"
#include "sidecar/store/usrbio/slots.h"

namespace kvsidecar::usrbio {

struct LoadedLibrary {
  LibraryFunctions functions;
  std::set<int> registered_fds;  // by this client
};

class LibraryMemory final : public Memory {
 public:
  static Result<std::unique_ptr<Memory>> make(const LoadedLibrary& library,
                                              std::shared_ptr<Mount> mount, const std::string& path,
                                              std::span<std::byte> mapped);
  const abi::Iov& iov() const { return iov_; }

 private:
  LibraryMemory(std::span<std::byte> mapped, RegisteredMemory registered, const abi::Iov& iov)
      : Memory(mapped), registered_(std::move(registered)), iov_(iov) {}
  const RegisteredMemory registered_;
  const abi::Iov iov_;
};

class LibraryFile final : public File {
 public:
  static Result<std::unique_ptr<File>> make(std::shared_ptr<LoadedLibrary> library,
                                            const Mount& mount, int fd);
  ~LibraryFile() override;
  const FileIdentity& identity() const { return identity_; }

 private:
  LibraryFile(std::shared_ptr<LoadedLibrary> library, int fd, const FileIdentity& identity)
      : File(fd), library_(std::move(library)), identity_(identity) {}
  const std::shared_ptr<LoadedLibrary> library_;
  const FileIdentity identity_;
};

class LibraryRing final : public Ring {
 public:
  static Result<std::unique_ptr<Ring>> make(std::shared_ptr<LoadedLibrary> library,
                                            const Mount& mount, const RingOptions& options);
  ~LibraryRing() override;
  int prepare(const Memory& memory, std::byte* address, uint64_t bytes, const File& file,
              uint64_t offset, uint64_t user) override;
  void submit() override;
  size_t poll(std::span<Completion> into) override;
  bool has_completion() const override;
  Status fault() const override { return fault_; }

 private:
  LibraryRing(std::shared_ptr<LoadedLibrary> library, const RingOptions& options)
      : library_(std::move(library)), for_read_(options.for_read), slots_(options.entries) {}
  bool drain();  // the library's ready completions into drained_, which is empty before
  void end_with(const std::string& what);

  const std::shared_ptr<LoadedLibrary> library_;
  const bool for_read_;
  abi::Ior ior_{};
  Slots slots_;
  std::array<Completion, 64> drained_;
  size_t drained_begin_ = 0, drained_end_ = 0;
  // The library writes an error to stderr at each try on a full ring: so it is asked again only
  // after a completion, or after that many polls (the completion that made room may be lost).
  static constexpr uint32_t kPollsBetweenTries = 64;
  uint32_t polls_until_try_ = 0;
  Status fault_;
};

}  // namespace kvsidecar::usrbio
