// SPDX-License-Identifier: Apache-2.0
// Where the pool's slots and files lie (pool_plan_input.h). Spans: for any shape and any span the
// slots of a run lie behind its table, in the run, and fit; the chosen runs are what their names
// say. Files: a directory in which anybody may have put anything under a chunk's name: what is not
// a chunk of this pool is neither followed, nor changed, nor removed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "ipc/layout.h"
#include "sidecar/pool/chunk_names.h"
#include "sidecar/pool/span_table.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/pool_plan_input.h"

namespace kvsidecar::fuzz {
namespace {

constexpr uint64_t kChunkBytes = 8192;
constexpr uint32_t kChunks = 3;

void check_run(const SlotShape& shape, uint64_t span_bytes, uint32_t spans) {
  const RunLayout run = layout_run(shape, span_bytes, spans);
  require(run.spans == spans, "a run is as long as asked");
  if (run.slots == 0) return;
  const uint64_t bytes = span_bytes * spans;
  require(run.slots_begin % kSlotAlignBytes == 0, "slots are aligned");
  require(run.slots_begin >= entry_offset(shape, run.slots), "slots lie behind the table");
  require(slot_offset(shape, run, run.slots) <= bytes, "slots lie in the run");
  require(run.unused_bytes == bytes - run.slots * shape.slot_bytes, "what is unused is counted");
}

void spans(FuzzInput& in) {
  const auto plan = in.take<SpanPlan>();
  const uint64_t span_bytes = (plan.span_units % 65536u + 1) * kSlotAlignBytes;
  const uint32_t spans_max = plan.spans_max % 1024u + 1;
  const uint64_t page_bytes = plan.page_bytes % (kPageBytesMax + 2);
  const SlotShape made = slot_shape(page_bytes, plan.parts % (kPartsMax + 1u),
                                    plan.description_bytes % (kDescriptionBytesMax + 1u));
  if (page_bytes > 0 && page_bytes <= kPageBytesMax)
    require(is_sane(made) && made.slot_bytes >= page_bytes, "a page's shape is sane");
  // One that a file may name: whatever is_sane() lets through.
  const SlotShape named{plan.slot_bytes, plan.entry_bytes};
  for (const SlotShape& shape : {made, named}) {
    if (!is_sane(shape)) continue;
    for (uint32_t n = 1; n <= std::min(spans_max, 12u); ++n) check_run(shape, span_bytes, n);
    check_run(shape, span_bytes, spans_max);
    const uint32_t shortest = shortest_run(shape, span_bytes, spans_max);
    const uint32_t preferred = preferred_run(shape, span_bytes, spans_max);
    const uint32_t acceptable = acceptable_run(shape, span_bytes, spans_max);
    require((shortest == 0) == (layout_run(shape, span_bytes, spans_max).slots == 0),
            "there is a shortest run where there is one");
    if (shortest == 0) {
      require(preferred == 0 && acceptable == 0, "no run is no run");
      continue;
    }
    require(layout_run(shape, span_bytes, shortest).slots > 0, "the shortest run has a slot");
    require(shortest == 1 || layout_run(shape, span_bytes, shortest - 1).slots == 0,
            "no run is shorter than the shortest");
    require(shortest <= acceptable && acceptable <= preferred && preferred <= spans_max,
            "acceptable lies between shortest and preferred");
  }
}

class Directory {
 public:
  Directory() {
    char name[] = "/dev/shm/kvsidecar-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr, "a folder can be made");
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  void put(const PoolFile& file, const std::string& name) const {
    const std::string at = path + "/" + name;
    if (name.empty() || name.find('/') != std::string::npos) return;
    if (name.find('\0') != std::string::npos || std::filesystem::exists(at)) return;
    std::error_code ignored;
    switch (static_cast<FileKind>((file.kind & 63) % static_cast<uint8_t>(FileKind::kKinds))) {
      case FileKind::kChunk:
        return make(at, kChunkBytes, 0600);
      case FileKind::kOddSize:
        return make(at, file.size, 0600);
      case FileKind::kOddMode:
        return make(at, kChunkBytes, 0400u | (file.size & 0777u));
      case FileKind::kSymlink:
        return std::filesystem::create_symlink(path + "/target", at, ignored);
      case FileKind::kHardLink:
        return std::filesystem::create_hard_link(path + "/target", at, ignored);
      case FileKind::kFolder:
        (void)std::filesystem::create_directory(at, ignored);
        return;
      default:
        (void)::mkfifo(at.c_str(), 0600);
    }
  }
  static void make(const std::string& at, uint64_t bytes, mode_t mode) {
    const UniqueFd fd(::open(at.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) return;
    require(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0 && ::fchmod(fd.get(), mode) == 0,
            "a file can be made");
  }
  void empty() const {
    for (const auto& entry : std::filesystem::directory_iterator(path))
      std::filesystem::remove_all(entry.path());
    std::ofstream(path + "/target") << std::string(kChunkBytes, 't');
  }
  bool target_is_whole() const {
    std::ifstream target(path + "/target");
    return std::string(std::istreambuf_iterator<char>(target), {}) == std::string(kChunkBytes, 't');
  }
  std::string path;
};

// Whether a daemon of the pool `p` may remove it.
bool is_ours(const std::string& name) {
  return name.starts_with("kvsidecar.p.") && name.size() > 12 &&
         name.find_first_not_of("0123456789", 12) == std::string::npos;
}

size_t foreign_names(const Directory& directory) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path))
    count += is_ours(entry.path().filename().string()) ? 0 : 1;
  return count;
}

void files(FuzzInput& in) {
  static const Directory directory;
  directory.empty();
  for (int i = 0; i < 12 && !in.empty(); ++i) {
    const auto file = in.take<PoolFile>();
    const auto bytes = in.take_bytes(file.name_bytes % 24u);
    std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (file.kind & kChunkName) name = "kvsidecar.p." + std::to_string(file.size % 6u);
    if (file.kind & kChunkPrefix) name = "kvsidecar.p." + name;
    directory.put(file, name);
  }
  const size_t foreign = foreign_names(directory);
  ChunkPlan plan;
  plan.directory = directory.path;
  plan.pool = "p";
  plan.chunk_bytes = kChunkBytes;
  plan.pool_bytes = kChunks * kChunkBytes;
  if (const Status status = check_plan(plan); !status.ok()) require_sentence(status);
  if (const Status status = remove_leftovers(plan); !status.ok()) require_sentence(status);
  for (uint32_t number = 0; number < kChunks; ++number) {
    Result<Chunk> chunk = open_chunk(plan, number, no_faults());
    if (!chunk.ok()) {
      require_sentence(chunk.status());
      continue;
    }
    require(chunk->memory.size() == kChunkBytes, "a chunk has its size");
    chunk->memory.front() = chunk->memory.back() = std::byte{1};
    struct stat facts {};
    require(::lstat(chunk->path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
                (facts.st_mode & 07777) == 0600 && facts.st_nlink == 1 &&
                static_cast<uint64_t>(facts.st_blocks) * 512 >= kChunkBytes,
            "a chunk is a file of its own, for its owner alone, and has its blocks");
    close_chunk(*chunk);
  }
  if (const Status status = remove_pool(plan); !status.ok()) require_sentence(status);
  require(foreign_names(directory) == foreign, "other names stay");
  require(directory.target_is_whole(), "what a link names stays as it is");
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  using namespace kvsidecar::fuzz;
  FuzzInput in(data, bytes);
  if (in.take<PlanOf>() == PlanOf::kFiles)
    files(in);
  else
    spans(in);
  return 0;
}
