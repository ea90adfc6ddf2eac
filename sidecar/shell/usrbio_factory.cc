// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/usrbio_factory.h"

#include "sidecar/shell/log.h"

namespace kvsidecar {
namespace {

constexpr const char* kLibrary = "library";
constexpr const char* kBuiltin = "builtin";
constexpr const char* kShm = "/dev/shm";
constexpr const char* kTwoEnded = "two daemons ended unexpectedly within ten minutes with ";

using Opened = Result<std::unique_ptr<usrbio::Client>>;

Opened open_one(const std::string& client, UsrbioTrial& trial, const std::string& root,
                const std::string& library) {
  if (Status status = trial.begin(client); !status.ok()) return status;
  return client == kLibrary ? usrbio::open_library(root, library) : usrbio::open_builtin(root);
}

bool library_is_tried(const Config& config, const UsrbioTrial& trial) {
  if (config.usrbio_client != UsrbioClient::kAuto)
    return config.usrbio_client == UsrbioClient::kLibrary;
  return !trial.is_dangerous(kLibrary);
}

}  // namespace

UsrbioStoreOptions usrbio_options(const Config& config, std::shared_ptr<UsrbioTrial> trial) {
  UsrbioStoreOptions options;
  options.files.stripe_bytes = config.usrbio_chunk_bytes;
  options.pool = config.pool_name;
  options.shm_directory = kShm;
  options.ring_entries = config.usrbio_ring_entries;
  options.openers.mount_point = &usrbio::mount_point_of;
  const bool library = library_is_tried(config, *trial);
  const bool automatic = config.usrbio_client == UsrbioClient::kAuto;
  const bool avoided = automatic && trial->is_dangerous(kBuiltin);
  const bool builtin = config.usrbio_client == UsrbioClient::kBuiltin || (automatic && !avoided);
  options.openers.client = [trial, library, builtin, avoided,
                            path = config.usrbio_library](const std::string& root) -> Opened {
    if (!library) return open_one(kBuiltin, *trial, root, "");
    Opened opened = open_one(kLibrary, *trial, root, path);
    if (!opened && avoided)
      return Status(opened.status().code(),
                    std::string(kTwoEnded) + "the builtin client, and " + opened.status().text());
    if (opened || !builtin) return opened;
    log_event(LogLevel::kInfo, "store_client",
              {{"client", kBuiltin}, {"text", "auto: " + opened.status().text()}});
    return open_one(kBuiltin, *trial, root, "");
  };
  return options;
}

std::string usrbio_is_avoided(const Config& config, const UsrbioTrial& trial) {
  const bool builtin_only = config.usrbio_client == UsrbioClient::kBuiltin;
  const bool library_only = config.usrbio_client == UsrbioClient::kLibrary;
  if (!library_only && !trial.is_dangerous(kBuiltin)) return {};
  if (!builtin_only && !trial.is_dangerous(kLibrary)) return {};
  return std::string(kTwoEnded) +
         "each client that may be used; look for their last words in the log";
}

std::string usrbio_switch(const Config& config, const UsrbioTrial& trial) {
  if (config.usrbio_client != UsrbioClient::kAuto || !trial.is_dangerous(kLibrary)) return {};
  return std::string("; builtin, because ") + kTwoEnded + "the library";
}

void sweep_usrbio_leftovers(const Config& config) { sweep_shared_blocks(kShm, config.pool_name); }

}  // namespace kvsidecar
