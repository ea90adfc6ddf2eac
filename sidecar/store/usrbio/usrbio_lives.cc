// SPDX-License-Identifier: Apache-2.0
// A mount comes, is watched, goes and comes again.
#include <algorithm>

#include "sidecar/store/usrbio/usrbio_store_state.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kBackoffMaxNs = 10'000'000'000;
// A lost life whose last I/O hasn't ended by then keeps the next one waiting no longer.
constexpr uint64_t kWindingNs = 30'000'000'000;
constexpr size_t kWindingMax = 4;  // each keeps its rings and buffers
constexpr uint64_t kCloseNs = 5'000'000'000, kCloseLookNs = 1'000'000;
constexpr uint32_t kRingsMax = 8;  // that one life is given beside its first
constexpr uint64_t kRingRetryNs = 1'000'000'000;

}  // namespace

void UsrbioStore::State::start_open() {
  opening = true;
  auto result =
      std::make_shared<Result<std::unique_ptr<Mounted>>>(Status(Code::kInternal, "not opened"));
  auto run = [this, result, number = static_cast<uint32_t>(lives), given = options] {
    *result = open_mounted(given, {clock, faults, log, usrbio, thread}, number);
  };
  thread.post(std::move(run), [this, result] { opened(std::move(*result)); });
}

void UsrbioStore::State::opened(Result<std::unique_ptr<Mounted>> result) {
  opening = false;
  const uint64_t now_ns = clock.now_ns();
  if (!result) {
    reopen_at_ns = now_ns + backoff_ns;
    backoff_ns = std::min(backoff_ns * 2, kBackoffMaxNs);
    const Status before = std::exchange(open_failure, result.status());
    if (before.text() == open_failure.text() || lives == 0) return;
    log(StoreLogLevel::kWarning, "store_mount",
        "store " + folder + ": not back yet: " + open_failure.text());
    return;
  }
  life = {result.take(), ++lives, 0};
  FileStore& files = *life.mounted->files;
  open_failure = {};
  backoff_ns = options.reopen_ns;
  next_beat_ns = now_ns + options.heartbeat_ns;
  hung = breaker_was_open = false;
  rings_asked = 0;
  ring_away.reset();
  files.set_capacity(options.files.capacity_bytes);
  const std::string notes = life.mounted->client->notes();
  if (!notes.empty()) log(StoreLogLevel::kInfo, "store_client", notes);
  for (const Region& region : regions) register_region(region);
  if (lives == 1) {
    folder = files.folder();
    phase = Phase::kUp;
    usrbio.up.store(true, std::memory_order_relaxed);
    return describe("");
  }
  phase = Phase::kReturning;
  describe("its directories are being read again; its pages are misses until then");
  start_scan();
}

void UsrbioStore::State::lose(const std::string& reason) {
  log(StoreLogLevel::kError, "store_mount",
      "store " + folder + ": " + reason +
          "; its pages are misses until the mount is back, which is looked for all the time");
  usrbio.mounts_lost.fetch_add(1, std::memory_order_relaxed);
  leave(true);
  describe("the mount is lost; its pages are misses until it is back");
}

// The next life begins when it can; this one ends when all that it has in flight has ended.
void UsrbioStore::State::leave(bool dead) {
  const uint64_t now_ns = clock.now_ns();
  phase = Phase::kDown;
  scanning = false;
  usrbio.up.store(false, std::memory_order_relaxed);
  usrbio.registered_bytes.store(0, std::memory_order_relaxed);
  for (UsrbioClassCounters& count : usrbio.classes) count.queue = count.depth = 0;
  Mounted& m = *life.mounted;
  if (dead) m.transfers->mount_lost();
  m.files->trip();
  m.files->wind_up();
  if (!dead) m.door->close(m.files->take_claim());
  counters.breaker_open.store(true, std::memory_order_relaxed);
  for (Proving& waiting : std::exchange(proving, {})) discard(std::move(waiting.memory));
  life.lost_ns = now_ns;
  life.dead = dead;
  winding.push_back(std::exchange(life, {}));
  reopen_at_ns = now_ns + options.reopen_ns;
}

// Lives that were left on a mount that was there: it may have gone since.
void UsrbioStore::State::beat_left(uint64_t now_ns) {
  if (now_ns < next_left_beat_ns) return;
  next_left_beat_ns = now_ns + options.heartbeat_ns;
  for (const Life& left : winding) {
    if (left.dead) continue;
    auto alive = std::make_shared<bool>(false);
    thread.post([client = left.mounted->client.get(), alive] { *alive = client->alive(); },
                [this, alive, number = left.number] {
                  for (Life& old : winding) {
                    if (*alive || old.number != number || old.dead) continue;
                    old.dead = true;
                    old.mounted->transfers->mount_lost();
                  }
                });
  }
}

bool UsrbioStore::State::turn_winding() {
  bool did = false;
  for (size_t i = 0; i < winding.size();) {
    FileStore& files = *winding[i].mounted->files;
    did = files.turn() || did;
    did = take_done(files, true) || did;
    if (!files.ended()) {
      ++i;
      continue;
    }
    earlier.add(files.counters());
    close_life(std::move(winding[i].mounted));
    winding.erase(winding.begin() + static_cast<std::ptrdiff_t>(i));
    did = true;
  }
  return did;
}

void UsrbioStore::State::close_life(std::unique_ptr<Mounted> mounted) {
  auto held = std::make_shared<std::unique_ptr<Mounted>>(std::move(mounted));
  thread.post([held] { close_mounted(std::move(*held)); }, nullptr);
}

bool UsrbioStore::State::watch(uint64_t now_ns) {
  if (closing) return false;
  beat_left(now_ns);
  if (life.mounted == nullptr) {
    const bool free = std::all_of(winding.begin(), winding.end(), [&](const Life& old) {
      return !old.dead || now_ns > old.lost_ns + kWindingNs;
    });
    if (opening || lives == 0 || !free || now_ns < reopen_at_ns) return false;
    start_open();
    return true;
  }
  const bool open = life.mounted->files->counters().breaker_open.load(std::memory_order_relaxed);
  if (open && !breaker_was_open) next_beat_ns = 0;  // perhaps the mount is gone
  breaker_was_open = open;
  beat(now_ns);
  if (life.mounted != nullptr) watch_rings(now_ns);
  return false;
}

void UsrbioStore::State::beat(uint64_t now_ns) {
  if (beat_since_ns) {
    if (hung || now_ns < *beat_since_ns + options.hung_ns) return;
    hung = true;
    life.mounted->files->trip();
    describe("the fuse daemon does not answer; its pages are misses until it does");
    log(StoreLogLevel::kError, "store_mount",
        "store " + folder + ": the fuse daemon does not answer; look after it");
    return;
  }
  if (now_ns < next_beat_ns) return;
  beat_since_ns = now_ns;
  auto alive = std::make_shared<bool>(false);
  // The client is closed on the same thread, behind this.
  thread.post([client = life.mounted->client.get(), alive] { *alive = client->alive(); },
              [this, alive, number = life.number] { beaten(number, *alive); });
}

void UsrbioStore::State::beaten(uint64_t number, bool alive) {
  beat_since_ns.reset();
  next_beat_ns = clock.now_ns() + options.heartbeat_ns;
  if (life.mounted == nullptr || number != life.number) return;
  if (!alive) return lose("the fuse daemon of its 3FS mount is gone");
  if (!std::exchange(hung, false)) return;
  if (phase == Phase::kUp) describe("");
  log(StoreLogLevel::kInfo, "store_mount", "store " + folder + ": the fuse daemon answers again");
}

void UsrbioStore::State::watch_rings(uint64_t now_ns) {
  Mounted& m = *life.mounted;
  // What comes behind a write in its segment waits for it.
  if (m.transfers->lost_writes() > 0 && winding.size() < kWindingMax) {
    log(StoreLogLevel::kError, "store_write",
        "store " + folder +
            ": a write has not ended in time; it keeps its memory, and the store begins anew");
    leave(false);
    return describe("it begins anew; its pages are misses until then");
  }
  if (!ring_away) {
    const auto kind = m.transfers->stuck();
    if (!kind) return;
    if (rings_asked == kRingsMax) return m.files->trip();  // what waits must not wait for ever
    ++rings_asked;
    ring_away = kind;
    ring_again_ns = now_ns;
    const Status fault = m.transfers->ring_fault(*kind);
    m.transfers->retire_ring(*kind);
    log(StoreLogLevel::kWarning, "store_ring",
        "store " + folder + ": class " + kTransferClassNames[static_cast<size_t>(*kind)] +
            " is given another ring: " +
            (fault.ok() ? "an I/O there never ended and it takes no more" : fault.text()));
  }
  if (ring_again_ns == 0 || now_ns < ring_again_ns) return;
  ring_again_ns = 0;
  auto made = std::make_shared<Result<std::unique_ptr<usrbio::Ring>>>(Status());
  thread.post(
      [made, client = m.client.get(), ring = ring_options(*ring_away, options.ring_entries)] {
        *made = client->make_ring(ring);
      },
      [this, made, number = life.number] {
        if (life.mounted == nullptr || number != life.number) {
          // Ends where it was made.
          return thread.post([made] { *made = Status(); }, nullptr);
        }
        if (*made) {
          life.mounted->transfers->set_ring(*ring_away, made->take());
          return ring_away.reset();
        }
        ring_again_ns = clock.now_ns() + kRingRetryNs;
        life.mounted->files->trip();
      });
}

bool UsrbioStore::State::close() {
  closing = true;
  const uint64_t until_ns = monotonic_ns() + kCloseNs;
  if (life.mounted != nullptr) {
    life.mounted->files->wind_up();
    life.lost_ns = clock.now_ns();
    for (Proving& waiting : std::exchange(proving, {})) discard(std::move(waiting.memory));
    winding.push_back(std::exchange(life, {}));
  }
  phase = Phase::kDown;
  Waker nobody;
  while (monotonic_ns() < until_ns && (!winding.empty() || thread.away() > 0)) {
    StoreDone dropped;
    while (done.try_pop(dropped)) {
    }
    if (!options.own_thread) thread.run_one();
    if (!turn()) nobody.sleep(kCloseLookNs);
    // A mount that came in the end goes again.
    if (life.mounted != nullptr) {
      life.mounted->files->wind_up();
      winding.push_back(std::exchange(life, {}));
      phase = Phase::kDown;
    }
  }
  if (winding.empty() && thread.away() == 0) return true;
  log(StoreLogLevel::kError, "store_close",
      "store " + folder + ": operations did not end within the closing time and are given up");
  return false;
}

}  // namespace kvsidecar
