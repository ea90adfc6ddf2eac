// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/store/usrbio_subject.h"

#include <unistd.h>

#include <iostream>

namespace kvsidecar {

UsrbioStoreOptions usrbio_subject_options(const std::string& root, const std::string& state,
                                          UsrbioOpeners openers) {
  UsrbioStoreOptions options;
  options.files.root = root;
  options.files.state_directory = state;
  options.files.segment_bytes = 4 << 20;
  options.files.queue_capacity = 64;
  options.openers = std::move(openers);
  options.pool = "test-" + std::to_string(::getpid());
  return options;
}

std::unique_ptr<Store> open_usrbio_subject(const UsrbioStoreOptions& options) {
  const StoreLog log = [](StoreLogLevel level, std::string_view cause, const std::string& text) {
    if (level != StoreLogLevel::kInfo) std::cerr << cause << ": " << text << "\n";
  };
  auto store = UsrbioStore::open(options, real_clock(), no_faults(), log);
  if (!store) ADD_FAILURE() << store.status().text();
  return store.take();
}

}  // namespace kvsidecar
