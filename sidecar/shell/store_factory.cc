// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/store_factory.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>

#include "sidecar/shell/log.h"
#include "sidecar/shell/usrbio_factory.h"
#include "sidecar/store/file_store.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kAutoPercent = 80;
// On 3FS: the fuse daemon goes on with what a dead process asked for, and tries for a minute.
constexpr uint64_t kPredecessorUsrbioNs = 75'000'000'000;

LogLevel level_of(StoreLogLevel level) {
  return level == StoreLogLevel::kError     ? LogLevel::kError
         : level == StoreLogLevel::kWarning ? LogLevel::kWarning
                                            : LogLevel::kInfo;
}

void log_store(StoreLogLevel level, std::string_view cause, const std::string& text) {
  log_event(level_of(level), cause, {{"text", text}});
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

FileStoreOptions file_options(const Config& config, Waker* done_waker) {
  FileStoreOptions options;
  options.root = config.store_root;
  options.state_directory = config.state_dir;
  options.segment_bytes = config.segment_bytes;
  options.capacity_bytes =
      config.limits.store_capacity_bytes == kAuto ? 0 : config.limits.store_capacity_bytes;
  options.breaker.stall_ns = config.limits.store_stall_ns;
  options.done_waker = done_waker;
  return options;
}

template <typename StoreType>
Status resolve_capacity(Config& config, StoreType& store) {
  if (config.limits.store_capacity_bytes != kAuto) return {};
  const Result<uint64_t> capacity =
      automatic_capacity(config.store_root, store.folder(), config.segment_bytes);
  if (!capacity) return capacity.status();
  config.limits.store_capacity_bytes = *capacity;
  store.set_capacity(*capacity);
  return {};
}

void no_more_memory(size_t bytes) {
  log_event(LogLevel::kWarning, "store_registers_no_more", {{"bytes", bytes}});
}

Result<OpenedStore> open_file(Config& config, const std::string& why, Clock& clock,
                              FaultPoints& faults, Waker* done_waker) {
  FileStoreOptions options = file_options(config, done_waker);
  options.why = why;
  Result<std::unique_ptr<FileStore>> file = FileStore::open(options, clock, faults, &log_store);
  if (!file) return file.status();
  if (Status status = resolve_capacity(config, **file); !status.ok()) return status;
  FileStore* store = file->get();
  OpenedStore opened;
  opened.store = file.take();
  opened.register_memory = [store](const std::string&, std::span<std::byte> memory) {
    if (!store->register_memory(memory)) no_more_memory(memory.size());
  };
  opened.counters = &store->counters();
  return opened;
}

Result<OpenedStore> open_usrbio(Config& config, std::shared_ptr<UsrbioTrial> trial,
                                const std::string& why, Clock& clock, FaultPoints& faults,
                                Waker* done_waker) {
  UsrbioStoreOptions options = usrbio_options(config, trial);
  const UsrbioStoreOptions defaults = options;
  options.files = file_options(config, done_waker);
  options.files.stripe_bytes = defaults.files.stripe_bytes;
  options.why = why;
  Result<std::unique_ptr<UsrbioStore>> made = UsrbioStore::open(options, clock, faults, &log_store);
  if (!made) return made.status();
  if (Status status = resolve_capacity(config, **made); !status.ok()) return status;
  UsrbioStore* store = made->get();
  OpenedStore opened;
  opened.trial = std::move(trial);
  opened.store = made.take();
  opened.register_memory = [store](const std::string& path, std::span<std::byte> memory) {
    if (!store->register_memory(path, memory)) no_more_memory(memory.size());
  };
  opened.counters = &store->counters();
  opened.usrbio = &store->usrbio_counters();
  opened.predecessor_io_ns = kPredecessorUsrbioNs;
  return opened;
}

void say_kind(const char* kind, const std::string& why) {
  log_event(LogLevel::kInfo, "store_kind", {{"kind", kind}, {"text", why}});
}

}  // namespace

Result<OpenedStore> open_store(Config& config, Clock& clock, FaultPoints& faults,
                               Waker* done_waker) {
  if (config.store_kind == StoreKind::kNone) return OpenedStore();
  sweep_usrbio_leftovers(config);
  if (config.store_kind == StoreKind::kFile)
    return open_file(config, "", clock, faults, done_waker);
  auto trial = std::make_shared<UsrbioTrial>(config.state_dir, clock.wall_ms());
  if (config.store_kind == StoreKind::kUsrbio)
    return open_usrbio(config, std::move(trial), "", clock, faults, done_waker);
  const Result<std::string> mount = usrbio::mount_point_of(config.store_root);
  if (!mount) return mount.status();
  if (mount->empty()) {
    say_kind("file", "auto: store.root lies on no 3FS mount");
    return open_file(config, "", clock, faults, done_waker);
  }
  std::string why = usrbio_is_avoided(config, *trial);
  if (why.empty()) {
    const std::string chosen = "auto: store.root lies on 3FS" + usrbio_switch(config, *trial);
    Result<OpenedStore> opened =
        open_usrbio(config, std::move(trial), chosen, clock, faults, done_waker);
    if (opened) say_kind("usrbio", chosen);
    if (opened) return opened;
    why = opened.status().text();
  }
  log_event(
      LogLevel::kWarning, "store_kind",
      {{"kind", "file"}, {"text", "auto: store.root lies on 3FS, but not by USRBIO: " + why}});
  Result<OpenedStore> opened =
      open_file(config, "auto: 3FS, but not by USRBIO: " + why, clock, faults, done_waker);
  if (opened) opened->predecessor_io_ns = kPredecessorUsrbioNs;  // it may have had the rings
  return opened;
}

}  // namespace kvsidecar
