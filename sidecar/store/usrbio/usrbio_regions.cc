// SPDX-License-Identifier: Apache-2.0
// The host pool's chunks: registered on each mount, and used once they have proven themselves.
#include <cerrno>
#include <cstring>

#include "sidecar/store/usrbio/usrbio_store_state.h"

namespace kvsidecar {

bool UsrbioStore::State::take_regions() {
  bool did = false;
  Region region;
  while (new_regions.try_pop(region)) {
    did = true;
    regions.push_back(region);
    if (life.mounted != nullptr) register_region(region);
  }
  return did;
}

void UsrbioStore::State::register_region(const Region& region) {
  using Registered = Result<std::unique_ptr<usrbio::Memory>>;
  auto made = std::make_shared<Registered>(Status());
  thread.post(
      [made, region, client = life.mounted->client.get()] {
        *made = client->register_memory(region.path, region.memory);
      },
      [this, made, region, number = life.number] {
        if (!*made) {
          usrbio.refused_memories.fetch_add(1, std::memory_order_relaxed);
          log(StoreLogLevel::kWarning, "store_memory",
              "store: " + region.path + " can't be used by 3FS (" + made->status().text() +
                  "); pages there are copied once more");
          return;
        }
        auto memory = std::make_shared<std::unique_ptr<usrbio::Memory>>(made->take());
        if (life.mounted == nullptr || number != life.number) return discard(std::move(memory));
        proving.push_back({std::move(memory), region, number});
      });
}

// Whether the fuse daemon could pin it shows only in an I/O.
void UsrbioStore::State::prove_waiting() {
  Mounted& m = *life.mounted;
  const int fd = m.files->probe_fd();
  while (fd >= 0 && !proving.empty()) {
    const Proving next = proving.front();
    if (!m.transfers->probe(**next.memory, fd,
                            [this, next](int64_t result) { proven(next, result); }))
      return;
    proving.pop_front();
  }
}

void UsrbioStore::State::proven(const Proving& proving_one, int64_t result) {
  if (life.mounted == nullptr || life.number != proving_one.life)
    return discard(proving_one.memory);
  if (result >= 0) {
    usrbio.registered_bytes.fetch_add(proving_one.region.memory.size(), std::memory_order_relaxed);
    return life.mounted->transfers->add_memory(std::move(*proving_one.memory));
  }
  discard(proving_one.memory);
  usrbio.refused_memories.fetch_add(1, std::memory_order_relaxed);
  log(StoreLogLevel::kWarning, "store_memory",
      "store: the fuse daemon can't use " + proving_one.region.path + " (" +
          std::string(std::strerror(static_cast<int>(-result))) +
          "); pages there are copied once more. Let it pin as much memory (LimitMEMLOCK=infinity "
          "of its unit)");
}

void UsrbioStore::State::discard(std::shared_ptr<std::unique_ptr<usrbio::Memory>> memory) {
  thread.post([memory = std::move(memory)] { memory->reset(); }, nullptr);
}

}  // namespace kvsidecar
