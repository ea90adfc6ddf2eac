// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/engine.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <optional>

#include "clients/cli/replay/attach.h"
#include "clients/cli/replay/blocks.h"
#include "clients/cli/replay/outcome.h"
#include "clients/cli/replay/page_content.h"
#include "clients/cpp/kvsidecar.hpp"

namespace kvsidecar {
namespace {

using client::Client;
using client::Expected;
using client::Memory;
using client::Op;

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kSecond = 1000 * kMillisecond;
constexpr uint64_t kTimeout = 10 * kSecond;          // of an operation: far beyond what it takes
constexpr uint64_t kComputePage = kMillisecond / 5;  // what a page costs in an outage
constexpr uint64_t kOutageRequests = 32;  // that go on without a daemon; then it is awaited
constexpr uint64_t kOutageWait = 30 * kSecond;
constexpr uint32_t kLeaseMs = 10'000;
constexpr uint64_t kMemoryMax = uint64_t{4} << 30;
constexpr int kPoison = 0xa5;

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
}

void add(EngineScore::Count& count, uint64_t amount) {
  count.fetch_add(amount, std::memory_order_relaxed);
}

uint64_t duration(uint64_t begin_ns, uint64_t end_ns) {
  return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

struct Request {
  const std::vector<uint64_t>& pages;
  std::vector<std::byte> keys;
  std::vector<uint32_t> blocks;
  uint64_t lease = 0;
  std::vector<uint8_t> places;  // of the restorable prefix

  kvs_keys keys_of(size_t first, size_t count) const {
    return client::keys(std::span(keys).subspan(first * kReplayKeyBytes, count * kReplayKeyBytes),
                        kReplayKeyBytes);
  }
};

struct PendingPut {
  Op op;
  std::vector<uint32_t> blocks;
  uint64_t began_ns;
  uint64_t pages;
  bool request_failed;  // before the put: it is counted already
};

class Engine {
 public:
  Engine(const EngineOptions& options, Scoreboard& board)
      : options_(options), board_(board), score_(board.engines[options.number]) {}

  Status open(size_t longest_prompt);
  void serve(const std::vector<uint64_t>& pages);
  void finish_puts(size_t blocks_wanted);

 private:
  size_t look_up(Request& request);
  size_t load(const Request& request, size_t pages);
  void put_rest(Request& request, size_t first);
  void settle(PendingPut& put);
  void count_hits(const Request& request, size_t usable);
  void wait_out(size_t pages);
  void compute(size_t pages);
  void release(uint64_t lease);
  void answered();
  bool is_expected(kvs_status status, uint64_t began_ns) const;
  void fail(RequestKind kind, kvs_status status, const std::string& text, uint64_t count = 1);
  void put_failed(kvs_status status, const std::string& text, uint64_t began_ns, uint64_t pages);
  void tell(RequestKind kind, kvs_status status, const std::string& text, uint64_t count);
  std::span<std::byte> block(uint32_t number) {
    return memory_->bytes().subspan(number * options_.page_bytes, options_.page_bytes);
  }

  const EngineOptions& options_;
  Scoreboard& board_;
  EngineScore& score_;
  std::optional<Client> client_;
  std::optional<Memory> memory_;
  std::optional<Blocks> blocks_;
  kvs_namespace namespace_ = 0;
  kvs_layout layout_ = 0;
  uint64_t first_epoch_ = 0;
  uint64_t recovered_ns_ = 0;  // first answer of the next daemon to this engine
  uint64_t outage_requests_ = 0;
  bool recovering_ = false;  // the next daemon answers, and nothing has hit there yet
  bool request_failed_ = false;
  std::deque<PendingPut> puts_;
};

Status Engine::open(size_t longest_prompt) {
  kvs_options options{};
  options.socket_path = options_.socket.empty() ? nullptr : options_.socket.c_str();
  const std::string name = "replay engine " + std::to_string(options_.number);
  options.name = name.c_str();
  options.default_timeout_ns = kTimeout;
  options.reconnect_max_ns = 100 * kMillisecond;
  auto opened = Client::open(options);
  if (!opened) return {Code::kUnavailable, "can't connect: " + opened.outcome().text()};
  client_.emplace(std::move(*opened));
  first_epoch_ = kvs_epoch(client_->c());

  // Twice the longest prompt: one request's puts run on while the next one is loaded.
  const size_t block_count = std::max<size_t>(2 * longest_prompt, 64);
  if (block_count * options_.page_bytes > kMemoryMax) {
    return invalid("--page-bytes " + std::to_string(options_.page_bytes) + " needs " +
                   std::to_string(block_count) +
                   " blocks for the longest prompt, over 4 GiB an engine; choose smaller pages");
  }
  auto memory = client_->create_memory(block_count * options_.page_bytes, kTimeout);
  if (!memory) return {Code::kInternal, "device memory: " + memory.outcome().text()};
  memory_.emplace(std::move(*memory));
  blocks_.emplace(static_cast<uint32_t>(block_count));
  const kvs_layout_run run{memory_->region(), 0, options_.page_bytes, options_.page_bytes};
  auto layout =
      client_->register_layout(static_cast<uint32_t>(block_count), std::span(&run, 1), kTimeout);
  if (!layout) return {Code::kInternal, "block layout: " + layout.outcome().text()};
  layout_ = *layout;
  auto attached = attach_replay(*client_, options_);
  if (!attached) return {Code::kInternal, "attach: " + attached.outcome().text()};
  namespace_ = *attached;
  return {};
}

void Engine::serve(const std::vector<uint64_t>& pages) {
  Request request{pages, {}, {}, 0, {}};
  request.keys.reserve(pages.size() * kReplayKeyBytes);
  for (const uint64_t page : pages) {
    const auto key = replay_key(options_.seed, page);
    request.keys.insert(request.keys.end(), key.begin(), key.end());
  }
  finish_puts(pages.size());
  request.blocks = blocks_->take(pages.size());
  request_failed_ = false;
  const size_t restorable = look_up(request);
  const size_t usable = restorable == 0 ? 0 : load(request, restorable);
  if (request.lease != 0) release(request.lease);
  count_hits(request, usable);
  put_rest(request, usable);
  if (usable > 0) recovering_ = false;
  if (recovering_) compute(pages.size());
  add(score_.requests, 1);
  if (request_failed_) add(score_.failed_requests, 1);
}

// The length of the longest restorable prefix; 0 also when no daemon answers.
size_t Engine::look_up(Request& request) {
  const uint64_t began = now_ns();
  auto op = client_->lookup({.keys = request.keys_of(0, request.pages.size()),
                             .pools = {{namespace_, KVS_ALL_PAGES, 0}},
                             .lease_ms = kLeaseMs,
                             .timeout_ns = kTimeout});
  const client::Outcome outcome = op ? op->wait() : op.outcome();
  if (!outcome) {
    if (!is_expected(outcome.status(), began)) {
      fail(RequestKind::kLookup, outcome.status(), outcome.text());
      return 0;
    }
    add(score_.outage_requests, 1);
    wait_out(request.pages.size());
    return 0;
  }
  answered();
  score_.lookup.add(duration(op->result().submitted_ns, op->result().finished_ns));
  request.lease = op->lease();
  const auto places = op->places();
  const size_t longest = std::min<size_t>(op->longest(), request.pages.size());
  request.places.assign(places.begin(),
                        places.begin() + static_cast<ptrdiff_t>(std::min(longest, places.size())));
  request.places.resize(longest, KVS_PLACE_MISS);
  return longest;
}

// No daemon answers. The prompt has to be computed, which takes time: without it an outage of a
// second would race through the rest of the trace. A short trace would end in a long outage all the
// same, so the engine waits once for the next daemon.
void Engine::wait_out(size_t pages) {
  const bool long_one = ++outage_requests_ == kOutageRequests;
  (void)kvs_wait_connected(client_->c(), long_one ? kOutageWait : kComputePage * pages);
}

// The next daemon's pool comes back in the background, when it already answers: until a page hits,
// prompts still take their time.
void Engine::compute(size_t pages) {
  const uint64_t ns = kComputePage * pages;
  const timespec time{static_cast<time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

// Loads the first pages, compares every byte and returns how many of them can be used.
size_t Engine::load(const Request& request, size_t pages) {
  // A block may hold the very page from an earlier request: what isn't written must show.
  for (size_t i = 0; i < pages; ++i)
    std::memset(block(request.blocks[i]).data(), kPoison, options_.page_bytes);
  const uint64_t began = now_ns();
  auto op = client_->get({.ns = namespace_,
                          .keys = request.keys_of(0, pages),
                          .items = client::blocks(layout_, std::span(request.blocks).first(pages)),
                          .timeout_ns = kTimeout,
                          .lease = request.lease});
  const client::Outcome outcome = op ? op->wait() : op.outcome();
  if (!outcome && (!op || op->items().empty()) && !is_expected(outcome.status(), began))
    fail(RequestKind::kGet, outcome.status(), outcome.text(), pages);
  if (!op) return 0;
  const auto items = op->items();
  size_t usable = 0, loaded = 0;
  for (size_t i = 0; i < std::min(pages, items.size()); ++i) {
    if (items[i] != KVS_OK) {
      if (!is_expected(items[i], began)) fail(RequestKind::kGet, items[i], outcome.text());
      continue;
    }
    ++loaded;
    if (usable == i) ++usable;
    const uint64_t wrong = wrong_bytes(options_.seed, request.pages[i], block(request.blocks[i]));
    if (wrong == 0) continue;
    add(score_.bytes_wrong, wrong);
    add(score_.pages_wrong, 1);
    std::fprintf(stderr, "replay: engine %u: page %llu came back with %llu wrong bytes\n",
                 options_.number, static_cast<unsigned long long>(request.pages[i]),
                 static_cast<unsigned long long>(wrong));
  }
  add(score_.bytes_loaded, loaded * options_.page_bytes);
  if (loaded > 0)
    add(score_.load_ns, duration(op->result().submitted_ns, op->result().finished_ns));
  return usable;
}

void Engine::put_rest(Request& request, size_t first) {
  const size_t count = request.pages.size() - first;
  for (size_t i = first; i < request.pages.size(); ++i)
    fill_page(options_.seed, request.pages[i], block(request.blocks[i]));
  if (count == 0) return blocks_->give_back(request.blocks);
  const uint64_t began = now_ns();
  auto op =
      client_->put({.ns = namespace_,
                    .keys = request.keys_of(first, count),
                    .items = client::blocks(layout_, std::span(request.blocks).subspan(first)),
                    .timeout_ns = kTimeout,
                    .position = static_cast<uint32_t>(first),
                    .prompt_pages = static_cast<uint32_t>(request.pages.size())});
  if (op) {
    puts_.push_back({std::move(*op), std::move(request.blocks), began, count, request_failed_});
    return;
  }
  put_failed(op.outcome().status(), op.outcome().text(), began, count);
  blocks_->give_back(request.blocks);
}

// Takes finished puts in, and waits for the oldest until so many blocks are free.
void Engine::finish_puts(size_t blocks_wanted) {
  while (!puts_.empty() && (blocks_->available() < blocks_wanted || puts_.front().op.finished())) {
    settle(puts_.front());
    blocks_->give_back(puts_.front().blocks);
    puts_.pop_front();
  }
}

void Engine::settle(PendingPut& put) {
  const client::Outcome outcome = put.op.wait();
  const auto items = put.op.items();
  request_failed_ = false;
  uint64_t stored = 0;
  for (const uint8_t item : items) {
    if (item == KVS_OK || item == KVS_OK_PART || item == KVS_EXISTS) {
      add(score_.pages_put, 1);
      stored += item == KVS_EXISTS ? 0 : 1;
    } else {
      put_failed(item, outcome.text(), put.began_ns, 1);
    }
  }
  if (!outcome && items.empty())
    put_failed(outcome.status(), outcome.text(), put.began_ns, put.pages);
  if (request_failed_ && !put.request_failed) add(score_.failed_requests, 1);
  const kvs_result& result = put.op.result();
  if (stored == 0) return;
  add(score_.bytes_stored, stored * options_.page_bytes);
  add(score_.store_ns,
      result.served_ns != 0 ? result.served_ns : duration(result.submitted_ns, result.finished_ns));
}

// No room is no failure, nor is what the daemon may refuse: pages that it doesn't hold are misses.
void Engine::put_failed(kvs_status status, const std::string& text, uint64_t began_ns,
                        uint64_t pages) {
  if (status != KVS_BUSY && is_expected(status, began_ns)) return;
  if (!is_refused(static_cast<Code>(status))) return fail(RequestKind::kPut, status, text, pages);
  add(score_.pages_put_refused, pages);
  tell(RequestKind::kPut, status, text, pages);
}

void Engine::count_hits(const Request& request, size_t usable) {
  uint64_t host = 0, store = 0, remote = 0;
  for (size_t i = 0; i < usable; ++i) {
    if (request.places[i] == KVS_PLACE_STORE) {
      ++store;
    } else if (request.places[i] == KVS_PLACE_REMOTE) {
      ++remote;
    } else {
      ++host;
    }
  }
  add(score_.pages_looked_up, request.pages.size());
  add(score_.pages_host, host);
  add(score_.pages_store, store);
  add(score_.pages_remote, remote);
  add(score_.pages_missed, request.pages.size() - usable);
  if (recovered_ns_ == 0) return;
  add(score_.after_restart_hits, usable);
  if (now_ns() - board_.restored_ns.load() < kSecond) {
    add(score_.restart_looked_up, request.pages.size());
    add(score_.restart_host, host);
    add(score_.restart_store, store);
  }
}

void Engine::release(uint64_t lease) {
  auto op = client_->begin(
      [lease](kvs_client* c, kvs_op* id) { return kvs_release(c, lease, kTimeout, id); });
  // A lease that can't be released ends by itself: nothing to fail a request for.
  if (op) (void)op->wait();
}

// A lookup was answered; the first by another daemon than at the start ends the outage.
void Engine::answered() {
  if (recovered_ns_ != 0 || board_.killed_ns.load() == 0) return;
  if (kvs_epoch(client_->c()) == first_epoch_) return;
  recovered_ns_ = now_ns();
  recovering_ = true;
  uint64_t none = 0;
  board_.restored_ns.compare_exchange_strong(none, recovered_ns_);
}

// Whether a status is what an engine has to expect: a miss in any of its forms, or the absence of
// the daemon while it is known to be away.
bool Engine::is_expected(kvs_status status, uint64_t began_ns) const {
  if (is_miss(status)) return true;
  if (status == KVS_UNAVAILABLE && options_.daemon_may_vanish) return true;
  const bool away =
      board_.killed_ns.load() != 0 && (recovered_ns_ == 0 || began_ns <= recovered_ns_);
  return away && is_sign_of_death(status);
}

void Engine::fail(RequestKind kind, kvs_status status, const std::string& text, uint64_t count) {
  request_failed_ = true;
  tell(kind, status, text, count);
}

// Once for all engines: the table counts the rest. A full pool is part of a cache's work.
void Engine::tell(RequestKind kind, kvs_status status, const std::string& text, uint64_t count) {
  if (!board_.causes.add(kind, static_cast<Code>(status), count) || status == KVS_BUSY) return;
  std::fprintf(stderr, "replay: engine %u: %s %s: %s (said once, then counted)\n", options_.number,
               kind_name(kind).c_str(), kvs_status_name(status), text.c_str());
}

}  // namespace

Status run_engine(const EngineOptions& options, const std::vector<std::vector<uint64_t>>& prompts,
                  Scoreboard& board) {
  size_t longest = 0;
  for (const auto& pages : prompts) longest = std::max(longest, pages.size());
  Engine engine(options, board);
  Status opened = engine.open(longest);
  if (!opened.ok()) return opened;
  for (size_t i = options.number; i < prompts.size() && board.stop.load() == 0;
       i += options.engines)
    engine.serve(prompts[i]);
  engine.finish_puts(SIZE_MAX);
  return {};
}

}  // namespace kvsidecar
