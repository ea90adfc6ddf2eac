// SPDX-License-Identifier: Apache-2.0
// Speed of a copy worker on the host device against memcpy of the same bytes in the same run, one
// thread. Runs of figure and floor are interleaved; medians are compared. After each figure the
// bytes are compared too. copy_bench [--json] [--only NAME] [--rounds N].
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sidecar/digest.h"
#include "tests/bench/copy/copy_rig.h"

namespace kvsidecar {
namespace {

struct Figure {
  const char* name;
  uint32_t pages;
  uint64_t page_bytes, run_bytes;
  CopyKind kind;
  double reach;  // share of the floor
};

constexpr Figure kFigures[] = {
    {"put_2mib_digest", 64, 2 << 20, 2 << 20, CopyKind::kPut, 0.72},
    {"put_2mib_in_16kib_runs_digest", 64, 2 << 20, 16 << 10, CopyKind::kPut, 0.72},
    {"put_256kib_digest", 512, 256 << 10, 256 << 10, CopyKind::kPut, 0.72},
    {"get_2mib", 64, 2 << 20, 2 << 20, CopyKind::kGet, 0.90},
    {"get_2mib_in_16kib_runs", 64, 2 << 20, 16 << 10, CopyKind::kGet, 0.80},
    {"get_layered_2mib_in_16kib_runs", 64, 2 << 20, 16 << 10, CopyKind::kGetLayered, 0.80},
};

struct Measured {
  double value = 0, floor = 0;  // GB/s
  bool bytes_right = false;
};

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double rate(uint64_t bytes, const std::function<void()>& copy) {
  const uint64_t start = real_clock().now_ns();
  copy();
  return static_cast<double>(bytes) / static_cast<double>(real_clock().now_ns() - start);
}

Measured measure(const Figure& figure, int rounds) {
  CopyRig rig(figure.pages, figure.page_bytes, figure.run_bytes);
  const Direction direction = figure.kind == CopyKind::kPut ? Direction::kStore : Direction::kLoad;
  rig.copy_by_worker(figure.kind);
  rig.copy_by_memcpy(direction);
  std::vector<double> values, floors;
  for (int i = 0; i < rounds; ++i) {
    floors.push_back(rate(rig.bytes(), [&] { rig.copy_by_memcpy(direction); }));
    values.push_back(rate(rig.bytes(), [&] { rig.copy_by_worker(figure.kind); }));
  }
  rig.scribble(std::byte{0x5a});
  rig.copy_by_worker(figure.kind);
  return {median(values), median(floors), rig.sides_agree()};
}

bool print(const Figure& figure, const Measured& measured, bool json, bool first) {
  const double ratio = measured.value / measured.floor;
  const bool ok = ratio >= figure.reach && measured.bytes_right;
  if (json)
    std::printf(
        "%s{\"figure\": \"%s\", \"value\": %.2f, \"unit\": \"GB/s\", \"floor\": %.2f, "
        "\"ratio\": %.3f, \"reach\": %.2f, \"ok\": %s}",
        first ? "" : ",\n ", figure.name, measured.value, measured.floor, ratio, figure.reach,
        ok ? "true" : "false");
  else
    std::printf("%-32s %6.2f GB/s  memcpy %6.2f  ratio %.3f  reach %.2f  %s\n", figure.name,
                measured.value, measured.floor, ratio, figure.reach,
                measured.bytes_right ? (ok ? "ok" : "not reached") : "WRONG BYTES");
  std::fflush(stdout);
  return measured.bytes_right;
}

}  // namespace
}  // namespace kvsidecar

int main(int argc, char** argv) {
  using namespace kvsidecar;
  bool json = false;
  const char* only = nullptr;
  int rounds = 11;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
      only = argv[++i];
    } else if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "usage: copy_bench [--json] [--only NAME] [--rounds N]\n");
      return 2;
    }
  }
  if (json)
    std::printf("[");
  else
    std::printf("digests: %s\n", digest_variant());
  bool bytes_right = true, first = true;
  for (const Figure& figure : kFigures) {
    if (only != nullptr && std::strcmp(only, figure.name) != 0) continue;
    bytes_right &= print(figure, measure(figure, rounds), json, first);
    first = false;
  }
  if (json) std::printf("]\n");
  return bytes_right ? 0 : 1;
}
