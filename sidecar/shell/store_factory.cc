// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/store_factory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>

#include "sidecar/shell/log.h"
#include "sidecar/store/file_store.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kAutoPercent = 80;

LogLevel level_of(StoreLogLevel level) {
  return level == StoreLogLevel::kError     ? LogLevel::kError
         : level == StoreLogLevel::kWarning ? LogLevel::kWarning
                                            : LogLevel::kInfo;
}

// What the files of the node's own folder take now: they count as free for an automatic capacity.
uint64_t folder_bytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    struct stat facts {};
    if (::lstat(it->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode))
      bytes += static_cast<uint64_t>(facts.st_blocks) * 512;
  }
  return bytes;
}

Result<uint64_t> automatic_capacity(const std::string& root, const std::string& folder,
                                    uint64_t segment_bytes) {
  struct statvfs facts {};
  if (::statvfs(root.c_str(), &facts) != 0)
    return os_error("store.root = \"" + root + "\"", errno, Code::kInvalid);
  const uint64_t free = uint64_t{facts.f_bavail} * facts.f_frsize;
  const uint64_t capacity = (free + folder_bytes(folder)) / 100 * kAutoPercent;
  if (capacity < 2 * segment_bytes)
    return invalid("store.capacity_bytes = \"auto\" is " + std::to_string(kAutoPercent) +
                   " % of what is free in store.root = \"" + root + "\", which is " +
                   std::to_string(capacity) + " bytes and less than two segments of " +
                   std::to_string(segment_bytes) +
                   "; free space, or set store.segment_bytes lower");
  return capacity;
}

}  // namespace

Result<OpenedStore> open_store(Config& config, Clock& clock, FaultPoints& faults,
                               Waker* done_waker) {
  OpenedStore opened;
  if (config.store_kind == StoreKind::kNone) return opened;
  FileStoreOptions options;
  options.root = config.store_root;
  options.state_directory = config.state_dir;
  options.segment_bytes = config.segment_bytes;
  options.capacity_bytes =
      config.limits.store_capacity_bytes == kAuto ? 0 : config.limits.store_capacity_bytes;
  options.breaker.stall_ns = config.limits.store_stall_ns;
  options.done_waker = done_waker;
  StoreLog log = [](StoreLogLevel level, std::string_view cause, const std::string& text) {
    log_event(level_of(level), cause, {{"text", text}});
  };
  Result<std::unique_ptr<FileStore>> file = FileStore::open(options, clock, faults, std::move(log));
  if (!file) return file.status();
  if (config.limits.store_capacity_bytes == kAuto) {
    const Result<uint64_t> capacity =
        automatic_capacity(config.store_root, (*file)->folder(), config.segment_bytes);
    if (!capacity) return capacity.status();
    config.limits.store_capacity_bytes = *capacity;
    (*file)->set_capacity(*capacity);
  }
  FileStore* store = file->get();
  opened.store = file.take();
  opened.register_memory = [store](std::span<std::byte> memory) {
    if (!store->register_memory(memory))
      log_event(LogLevel::kWarning, "store_registers_no_more", {{"bytes", memory.size()}});
  };
  opened.counters = &store->counters();
  return opened;
}

}  // namespace kvsidecar
