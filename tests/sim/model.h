// SPDX-License-Identifier: Apache-2.0
// What may come out of the daemon, and what must: every stamp that was ever put, what became of it,
// and what is known about each page. It knows nothing of how the daemon works.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace kvsidecar::sim {

// A namespace's generations that a request may have met: what the engine knew when it sent it, and
// when it read the answer.
struct Generations {
  uint64_t low = 0, high = UINT64_MAX;
};

struct PageName {
  int space = 0;
  uint64_t key = 0;
  auto operator<=>(const PageName&) const = default;
};

class Model {
 public:
  uint64_t new_stamp() { return ++last_stamp_; }

  // Puts. A write is open until its put is answered, revoked or abandoned.
  uint64_t begin_write(PageName page, uint32_t part, uint64_t generation);
  // counted: its claim was DONE and the answer says that the bytes were taken.
  // Returns what is wrong with that, or nothing.
  std::string end_write(uint64_t stamp, bool counted, uint64_t generation, uint64_t now);

  // Why a get of this part must not have given these bytes; nothing when it may.
  std::string check_got(PageName page, uint32_t part, Generations generations, uint64_t sent_at,
                        uint64_t stamp);

  // What a put's OK (fresh) or EXISTS promises, until somebody deletes or clears. A fresh page may
  // hide a durable one that the daemon had not yet found again.
  struct Completion {
    bool fresh = false, durable = false;
    uint64_t sent_at = 0, now = 0;
  };
  void page_complete(PageName page, uint64_t generation, const Completion& completion);
  void page_perhaps_fresh(PageName page, uint64_t generation);  // its put's answer was never read
  // store_counts: it is known again and dropped no segment; else only a page that was put afresh
  // into the host pool must be there.
  bool must_be_found(PageName page, uint64_t generation, uint64_t lookup_sent_at,
                     bool store_counts) const;
  bool must_be_stored(PageName page, uint64_t generation, uint64_t lookup_sent_at) const;

  void delete_sent(PageName page, uint64_t now);
  void delete_answered(PageName page, Generations generations, bool deleted, uint64_t sent_at,
                       uint64_t now);
  bool deleted_since(PageName page, uint64_t event) const;  // sent or answered

  // Clear: what a session learnt. A daemon never goes back behind it.
  void generation_seen(int space, uint64_t generation);
  uint64_t generation(int space) const;

  // The daemon is gone: open writes either count or not, as their claim words say (done by the
  // engines first); deletes may be forgotten. `memory_lost`: so is what was not durable.
  void daemon_gone(bool memory_lost);

  uint64_t writes() const { return writes_.size(); }

 private:
  enum class State { kOpen, kCounted, kVoid };
  struct Write {
    PageName page;
    uint32_t part = 0;
    Generations generations;
    State state = State::kOpen;
    bool seen = false;
    uint64_t counted_at = 0, deleted_at = 0;
  };
  struct Page {
    uint64_t complete_at = 0;  // 0 = not known to be
    uint64_t fresh_at = 0;     // put into the host pool
    uint64_t durable_at = 0;
  };
  struct Deletes {
    int open = 0;
    uint64_t last_sent_or_answered = 0;
  };
  using PageInGeneration = std::pair<PageName, uint64_t>;

  uint64_t last_stamp_ = 0;
  std::unordered_map<uint64_t, Write> writes_;
  std::map<std::pair<PageName, uint32_t>, std::vector<uint64_t>> writes_of_;
  std::map<PageInGeneration, Page> pages_;
  std::map<PageName, Deletes> deletes_;
  std::map<int, uint64_t> generations_;
};

}  // namespace kvsidecar::sim
