// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/mounted.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kStagingBytes = 1 << 20, kStagingBuffers = 8;
constexpr uint64_t kCheckBytes = 4096;
constexpr uint64_t kLookNs = 50'000;

std::string named(const std::string& root) { return "store.root = \"" + root + "\""; }

// The root by a descriptor: after the fuse daemon's death its path may be a plain directory, in
// which nothing must be made.
Result<UniqueFd> open_root(const std::string& root, usrbio::Client& client) {
  UniqueFd fd(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_error(named(root), errno, Code::kInvalid);
  struct stat inside {
  }, mount{};
  const bool same = ::fstat(fd.get(), &inside) == 0 &&
                    ::stat(client.mount_point().c_str(), &mount) == 0 &&
                    inside.st_dev == mount.st_dev && client.alive();
  if (!same)
    return Status(Code::kUnavailable, named(root) + " is no part of the 3FS mount " +
                                          client.mount_point() + " now; mount it again");
  return fd;
}

Result<std::unique_ptr<usrbio::Client>> open_client(const UsrbioStoreOptions& options) {
  const std::string& root = options.files.root;
  auto mount = options.openers.mount_point(root);
  if (!mount) return mount.status();
  if (mount->empty())
    return invalid(named(root) +
                   " lies on no 3FS mount; mount 3FS there, name a directory below one, or set "
                   "store.kind = \"file\"");
  return options.openers.client(root);
}

Result<UsrbioTransfers::Rings> make_rings(usrbio::Client& client, uint32_t entries) {
  UsrbioTransfers::Rings rings;
  for (size_t i = 0; i < kTransferClasses; ++i) {
    auto ring = client.make_ring(ring_options(static_cast<TransferClass>(i), entries));
    if (!ring) return ring.status();
    rings[i] = ring.take();
  }
  return rings;
}

// One transfer, waited for. -ETIME: it hasn't ended, and still works on its memory.
int64_t move(UsrbioTransfers& transfers, Clock& clock, const Transfer& transfer, uint64_t wait_ns) {
  if (transfers.start(transfer, 1) != TransferPath::Taken::kYes) return -EIO;
  const uint64_t until_ns = clock.now_ns() + wait_ns;
  const timespec look{0, kLookNs};
  for (TransferPath::Completion completion; clock.now_ns() < until_ns;) {
    transfers.submit();
    if (transfers.next_completion(completion)) return completion.result;
    ::nanosleep(&look, nullptr);
  }
  return -ETIME;
}

std::string refusal(TransferClass kind, int64_t result) {
  std::string text = std::string("3FS: a block could not be moved through the ring of class ") +
                     kTransferClassNames[static_cast<size_t>(kind)] + " (";
  if (result >= 0) return text + std::to_string(result) + " bytes came of 4096)";
  text += std::strerror(static_cast<int>(-result));
  if (result == -EACCES)
    return text +
           "); the fuse daemon can't use this process's memory: give it the same /dev/shm, and "
           "the right to pin as much";
  if (result == -ETIME) return text + "); look whether the fuse daemon and its storage are well";
  return text + ")";
}

// A block there and back, through every ring.
Status check_rings(Mounted& m, Clock& clock, uint64_t wait_ns) {
  UniqueFd fd(
      ::openat(m.files->folder_fd(), "probe", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return os_error("store folder " + m.files->folder() + ": the probe file", errno);
  auto file = m.client->register_file(fd.get());
  if (!file) return file.status();
  m.transfers->add_file(file.take());
  std::byte* const out = m.block->bytes().data();
  std::byte* const in = out + kCheckBytes;
  random_bytes({out, kCheckBytes});
  for (const auto kind :
       {TransferClass::kWrite, TransferClass::kDemandRead, TransferClass::kPrefetch}) {
    const bool write = kind == TransferClass::kWrite;
    std::memset(in, 0, kCheckBytes);
    Transfer transfer;
    transfer.kind = kind;
    transfer.fd = fd.get();
    transfer.pieces[0] = {write ? out : in, kCheckBytes};
    const int64_t result = move(*m.transfers, clock, transfer, wait_ns);
    if (result == -ETIME) (void)fd.release();
    if (result != static_cast<int64_t>(kCheckBytes))
      return {result == -EACCES ? Code::kDenied : Code::kUnavailable, refusal(kind, result)};
    if (!write && std::memcmp(in, out, kCheckBytes) != 0)
      return {Code::kUnavailable, "3FS: a block that was written comes back with other bytes"};
  }
  (void)m.transfers->remove_file(fd.get());  // before its descriptor is closed
  return {};
}

FileStoreOptions file_options(const UsrbioStoreOptions& options, Mounted& m) {
  FileStoreOptions files = options.files;
  files.root_fd = m.root.get();
  files.path = m.transfers.get();
  files.door = m.door.get();
  files.late_lengths = true;
  files.bounce_memory = m.block->bytes().first(BouncePool::bytes_needed());
  return files;
}

Status build(const UsrbioStoreOptions& options, const MountedTools& tools, uint32_t number,
             Mounted& m) {
  auto client = open_client(options);
  if (!client) return client.status();
  m.client = client.take();
  auto root = open_root(options.files.root, *m.client);
  if (!root) return root.status();
  m.root = root.take();
  const uint64_t bounce_bytes = align_up(BouncePool::bytes_needed(), kBlockBytes);
  auto block = SharedBlock::create(options.shm_directory, options.pool, number,
                                   bounce_bytes + kStagingBuffers * kStagingBytes);
  if (!block) return block.status();
  m.block = block.take();
  auto memory = m.client->register_memory(m.block->path(), m.block->bytes());
  if (!memory) return memory.status();
  auto rings = make_rings(*m.client, options.ring_entries);
  if (!rings) return rings.status();
  const UsrbioTransfers::Options transfer{.chunk_bytes = options.files.stripe_bytes,
                                          .staging_bytes = kStagingBytes,
                                          .lost_ns = options.lost_ns,
                                          .grace_ns = options.grace_ns};
  m.transfers = std::make_unique<UsrbioTransfers>(
      transfer, tools.clock, tools.counters, rings.take(), m.block->bytes().subspan(bounce_bytes));
  m.transfers->add_memory(memory.take());
  m.door = std::make_unique<MountDoor>(*m.client, *m.transfers, tools.thread);
  auto files = FileStore::open(file_options(options, m), tools.clock, tools.faults, tools.log);
  if (!files) return files.status();
  m.files = files.take();
  return check_rings(m, tools.clock, options.check_wait_ns);
}

}  // namespace

usrbio::RingOptions ring_options(TransferClass kind, uint32_t entries) {
  usrbio::RingOptions options;
  options.entries = entries;
  options.for_read = kind != TransferClass::kWrite;
  options.io_depth = kind == TransferClass::kDemandRead ? -4 : -8;
  return options;
}

Result<std::unique_ptr<Mounted>> open_mounted(const UsrbioStoreOptions& options,
                                              const MountedTools& tools, uint32_t number) {
  auto mounted = std::make_unique<Mounted>();
  const Status status = build(options, tools, number, *mounted);
  if (status.ok()) return mounted;
  // An I/O that hasn't ended still works on the buffers: they stay.
  if (mounted->transfers != nullptr && mounted->transfers->in_flight() > 0)
    (void)mounted.release();
  else
    close_mounted(std::move(mounted));
  return status;
}

void close_mounted(std::unique_ptr<Mounted> mounted) {
  if (mounted->door != nullptr) mounted->door->hand_over();
  mounted->files.reset();
  mounted->door.reset();
  mounted->transfers.reset();
  mounted->client.reset();
}

}  // namespace kvsidecar
