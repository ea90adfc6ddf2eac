// SPDX-License-Identifier: Apache-2.0
// The builtin client: the protocol spoken by ourselves.
#include "sidecar/store/usrbio/builtin.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sidecar/store/usrbio/io_check.h"
#include "sidecar/store/usrbio/mount.h"
#include "sidecar/store/usrbio/protocol_ring.h"
#include "sidecar/store/usrbio/registration.h"

namespace kvsidecar::usrbio {
namespace {

class BuiltinMemory final : public Memory {
 public:
  BuiltinMemory(std::span<std::byte> mapped, RegisteredMemory registered)
      : Memory(mapped), registered_(std::move(registered)) {}
  const MemoryId& id() const { return registered_.id; }

 private:
  const RegisteredMemory registered_;
};

class BuiltinFile final : public File {
 public:
  BuiltinFile(int fd, const FileIdentity& identity) : File(fd), identity_(identity) {}
  const FileIdentity& identity() const { return identity_; }

 private:
  const FileIdentity identity_;
};

class BuiltinRing final : public Ring {
 public:
  BuiltinRing(std::unique_ptr<ProtocolRing> ring, bool for_read)
      : ring_(std::move(ring)), for_read_(for_read) {}

  int prepare(const Memory& memory, std::byte* address, uint64_t bytes, const File& file,
              uint64_t offset, uint64_t user) override {
    const FileIdentity& identity = static_cast<const BuiltinFile&>(file).identity();
    const CheckedIo checked = check_io(memory.bytes(), address, bytes, offset,
                                       for_read_ ? identity.readable : identity.writable);
    if (checked.error != 0) return checked.error;
    const int slot = ring_->end().prepare({static_cast<const BuiltinMemory&>(memory).id(),
                                           checked.memory_offset, identity.inode, offset, bytes},
                                          user);
    return slot < 0 ? slot : 0;
  }

  void submit() override { ring_->submit(); }

  size_t poll(std::span<Completion> into) override {
    size_t count = 0;
    while (count < into.size()) {
      std::array<ClientRing::Ended, 32> ended;
      const size_t got =
          ring_->end().poll(std::span(ended).first(std::min(ended.size(), into.size() - count)));
      if (got == 0) break;
      for (size_t i = 0; i < got; ++i)
        into[count++] = {ended[i].user, checked_result(ended[i].result, ended[i].bytes)};
    }
    ring_->end().discard_posts(count);
    return count;
  }

  bool has_completion() const override { return ring_->end().has_completion(); }
  Status fault() const override { return ring_->end().fault(); }

 private:
  const std::unique_ptr<ProtocolRing> ring_;
  const bool for_read_;
};

class BuiltinClient final : public Client {
 public:
  explicit BuiltinClient(std::shared_ptr<Mount> mount) : mount_(std::move(mount)) {}

  std::string describe() const override { return "builtin"; }
  const std::string& mount_point() const override { return mount_->point(); }

  Result<std::unique_ptr<Memory>> register_memory(const std::string& path,
                                                  std::span<std::byte> mapped) override {
    auto registered = register_shared_memory(mount_, path, mapped.size());
    if (!registered) return registered.status();
    return std::unique_ptr<Memory>(new BuiltinMemory(mapped, registered.take()));
  }

  Result<std::unique_ptr<Ring>> make_ring(const RingOptions& options) override {
    const Status checked = check_ring_options(options);
    if (!checked.ok()) return checked;
    auto ring = ProtocolRing::make(mount_, options.entries,
                                   {.for_read = options.for_read, .io_depth = options.io_depth});
    if (!ring) return ring.status();
    return std::unique_ptr<Ring>(new BuiltinRing(ring.take(), options.for_read));
  }

  Result<std::unique_ptr<File>> register_file(int fd) override {
    const auto identity = mount_->identify(fd);
    if (!identity) return identity.status();
    return std::unique_ptr<File>(new BuiltinFile(fd, *identity));
  }

  bool alive() override { return mount_->alive(); }

 private:
  const std::shared_ptr<Mount> mount_;
};

}  // namespace

Result<std::unique_ptr<Client>> open_builtin(const std::string& path, FaultPoints& faults) {
  const auto point = mount_point_of(path);
  if (!point) return point.status();
  if (point->empty())
    return invalid(path + " doesn't lie on 3FS (no mount of type " + kFileSystemType +
                   " holds it): name a folder of a 3FS mount, or use the file store");
  const auto folder_path = existing_folder(path);
  if (!folder_path) return folder_path.status();
  const UniqueFd folder(::open(folder_path->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return os_error("opening " + *folder_path, errno, Code::kUnavailable);
  const Status protocol = Mount::check_protocol(folder.get(), *point);
  if (!protocol.ok()) return protocol;
  auto mount = Mount::open(*point, faults);
  if (!mount) return mount.status();
  RingFile::sweep();
  return std::unique_ptr<Client>(new BuiltinClient(mount.take()));
}

Result<std::unique_ptr<Client>> open_builtin(const std::string& path) {
  return open_builtin(path, no_faults());
}

}  // namespace kvsidecar::usrbio
