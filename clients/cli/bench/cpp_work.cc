// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "clients/cli/bench/measure.h"
#include "clients/cli/bench/work.h"

namespace kvsidecar {
namespace {

using namespace work;

class CppWork : public Work {
 public:
  CppWork(std::unique_ptr<BenchEngine> large, std::unique_ptr<BenchEngine> small)
      : large_(std::move(large)), small_(std::move(small)) {}

  Status fill() { return small_->fill(0, kKeys * kPrompts); }

  Result<double> run(const std::string& task) override {
    if (task == "put") return put_batches();
    if (task == "put_page") return put_singles();
    if (task == "get") {
      if (!batches_)
        if (auto put = put_batches(); !put) return put;
      return batches([this](uint64_t number) { return large_->get(number, kBatch); });
    }
    if (task == "get_page") {
      if (!singles_)
        if (auto put = put_singles(); !put) return put;
      uint64_t page = *singles_;
      return median_of(kSingles, [&] { return large_->get(page++, 1); });
    }
    if (task != "lookup") return invalid("the C++ client has no task " + task);
    return median_of(kLookups, [this] {
      const uint64_t first = uint64_t{prompt_++ % kPrompts} * kKeys;
      return small_->lookup(bench_keys(first, kKeys), kKeys);
    });
  }

 private:
  Result<double> put_batches() {
    batches_ = next_;
    next_ += kBlocks;
    return batches([this](uint64_t number) { return large_->put(number, kBatch); });
  }
  Result<double> put_singles() {
    singles_ = next_;
    return median_of(kSingles, [this] { return large_->put(next_++, 1); });
  }
  template <typename One>
  Result<double> batches(One&& one) {
    uint64_t number = *batches_;
    return median_of(kBatches, [&] {
      large_->shuffle_blocks();
      const Result<double> spent = one(number);
      number += kBatch;
      return spent;
    });
  }

  std::unique_ptr<BenchEngine> large_, small_;
  uint64_t next_ = 0;
  std::optional<uint64_t> batches_, singles_;  // the first page of the latest round of puts
  uint32_t prompt_ = 0;
};

}  // namespace

Result<std::unique_ptr<Work>> start_cpp_work(const std::string& socket) {
  EngineShape shape;
  shape.page_bytes = kPageBytes;
  shape.blocks = kBlocks;
  auto large = BenchEngine::attach(socket, shape);
  if (!large) return large.status();
  shape.page_bytes = kSmallPageBytes;
  shape.blocks = kKeys;
  auto small = BenchEngine::attach(socket, shape);
  if (!small) return small.status();
  auto work = std::make_unique<CppWork>(large.take(), small.take());
  if (Status filled = work->fill(); !filled.ok()) return filled;
  return std::unique_ptr<Work>(std::move(work));
}

}  // namespace kvsidecar
