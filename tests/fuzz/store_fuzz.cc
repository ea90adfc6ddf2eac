// SPDX-License-Identifier: Apache-2.0
// A node's folder of a store with arbitrary segment files (store_input.h): superblocks, directory
// entries, tombstones, trailers. A scan ends, whatever it finds; what it finds lies in its file;
// reading it gives a record of such a page or says what is wrong; and deleting and unlinking it go
// through. Superblocks and entries that decode say the same when encoded again.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "sidecar/store/file_store.h"
#include "sidecar/store/segment_format.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/store_input.h"
#include "tests/support/engine.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvsidecar::fuzz {
namespace {

constexpr uint64_t kPageBytes = 512;
constexpr uint32_t kEntries = kEntriesPerBlock;
constexpr Hash128 kNode{1, 2};
using Image = std::vector<std::byte>;

class Clock1 final : public Clock {
 public:
  uint64_t now_ns() override { return now_ += 1'000; }
  uint64_t wall_ms() override { return now_ / 1'000'000; }

 private:
  uint64_t now_ = 1'000'000'000;
};

class NoRing final : public FaultPoints {
 public:
  int fail(std::string_view point) override { return point == "store.uring" ? ENOSYS : 0; }
};

Superblock superblock_of(uint64_t segment, bool carrier) {
  Superblock head;
  head.segment = segment;
  head.node = kNode;
  head.generation = 1;
  head.page_bytes = carrier ? 0 : kPageBytes;
  head.slot_alignment = kSlotUnit;
  head.directory_entries = kEntries;
  if (!carrier) head.encoded = *encode_identity(testing::fields_of(kPageBytes));
  return head;
}

std::span<std::byte, kEntryBytes> entry_at(Image& image, const Superblock& head, uint32_t number) {
  return std::span<std::byte, kEntryBytes>(image.data() + head.head_bytes() + number * kEntryBytes,
                                           kEntryBytes);
}

// Two pages, or tombstones for the pages of the segments of epoch 1.
Image valid_segment(uint64_t segment, bool carrier) {
  const Superblock head = superblock_of(segment, carrier);
  Image image(head.slots_offset());
  encode_superblock(head, std::span(image).first(head.head_bytes()));
  for (uint32_t number = 0; number < 2; ++number) {
    DirectoryEntry entry;
    entry.number = number;
    if (carrier) {
      entry.kind = EntryKind::kTombstone;
      entry.segment = 1ull << 32 | 1;
      entry.slot = number;
    } else {
      PageRecord record;
      record.namespace_id = namespace_id(head.encoded);
      record.generation = 1;
      record.page_bytes = kPageBytes;
      record.part_digests = {number};
      record.key = testing::key_of(number);
      record.hash = page_hash(record.namespace_id, 1, record.key);
      entry.kind = EntryKind::kPage;
      entry.hash = record.hash;
      entry.page_bytes = kPageBytes;
      entry.trailer_bytes = static_cast<uint32_t>(record_bytes(record));
      entry.offset = align_up(image.size(), kSlotUnit);
      const uint64_t trailer = trailer_offset(entry.offset, kPageBytes);
      image.resize(slot_end(entry.offset, kPageBytes, entry.trailer_bytes));
      encode_record(record, std::span(image).subspan(trailer, entry.trailer_bytes));
    }
    encode_entry(entry, segment, entry_at(image, head, number));
  }
  return image;
}

// As a writer would have sealed them: superblock and entries, where their lengths can be read.
void right_checks(Image& image, uint64_t segment) {
  const auto seal = [](std::byte* at, size_t bytes, uint64_t seed) {
    const uint64_t check = XXH3_64bits_withSeed(at, bytes - 8, seed);
    std::memcpy(at + bytes - 8, &check, 8);
  };
  if (image.size() < kBlockBytes) return;
  uint32_t head_bytes;
  std::memcpy(&head_bytes, image.data() + 12, sizeof head_bytes);
  if (head_bytes < kBlockBytes || head_bytes > image.size()) return;
  seal(image.data(), head_bytes, 0);
  for (uint32_t n = 0; n < kEntries && head_bytes + (n + 1) * kEntryBytes <= image.size(); ++n) {
    std::byte* at = image.data() + head_bytes + n * kEntryBytes;
    const bool empty = std::all_of(at, at + kEntryBytes, [](auto b) { return b == std::byte{0}; });
    if (!empty) seal(at, kEntryBytes, segment);
  }
}

Image make_image(const StoreFile& file, uint64_t segment, FuzzInput& in) {
  const auto content = in.take_bytes(file.bytes);
  Image image(content.begin(), content.end());
  if (file.mode & kEdits) {
    image = valid_segment(segment, (file.mode & kCarrier) != 0);
    FuzzInput edits(reinterpret_cast<const uint8_t*>(content.data()), content.size());
    while (!edits.empty()) {
      const uint16_t offset = edits.take<uint16_t>();
      image[offset % image.size()] = edits.take<std::byte>();
    }
  }
  if (file.mode & kRightChecks) right_checks(image, segment);
  if (file.mode & kShort) image.resize(image.size() / 2);
  return image;
}

void decode_and_back(const Image& image, uint64_t segment) {
  const ExactCopy copy(image);
  const Result<Superblock> head = decode_superblock(copy.bytes());
  if (!head.ok()) return require_sentence(head.status());
  require(head->head_bytes() <= image.size() && head->directory_entries <= kDirectoryEntriesMax,
          "a superblock lies in its file");
  Image once(head->head_bytes()), twice(once.size());
  encode_superblock(*head, once);
  const Result<Superblock> again = decode_superblock(once);
  require(again.ok() && again->head_bytes() == once.size(), "an encoded superblock decodes");
  encode_superblock(*again, twice);
  require(once == twice, "a superblock says the same after a round trip");
  for (uint32_t n = 0; head->head_bytes() + (n + 1) * kEntryBytes <= image.size(); ++n) {
    const std::span<const std::byte, kEntryBytes> bytes(
        copy.bytes().data() + head->head_bytes() + n * kEntryBytes, kEntryBytes);
    const DirectoryEntry entry = decode_entry(bytes, segment, n);
    if (entry.kind != EntryKind::kPage && entry.kind != EntryKind::kTombstone) continue;
    std::byte back[kEntryBytes];
    encode_entry(entry, segment, back);
    const DirectoryEntry second = decode_entry(back, segment, n);
    require(second.kind == entry.kind && second.hash == entry.hash &&
                second.offset == entry.offset && second.slot == entry.slot,
            "an entry says the same after a round trip");
  }
}

// One folder for the whole run; emptied before each input.
struct Folder {
  std::string root, path;
  Folder() {
    char name[] = "/tmp/kvsidecar-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr, "a folder can be made");
    root = name;
    path = root + "/" + to_hex(kNode) + ".0";
    const std::string node = to_hex(kNode);
    write(root + "/node", std::as_bytes(std::span(node)));
  }
  ~Folder() { std::filesystem::remove_all(root); }
  void empty() {
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
  }
  static void write(const std::string& file, std::span<const std::byte> bytes) {
    const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    require(
        fd && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
        "a file can be written");
  }
};

class Driver {
 public:
  explicit Driver(const std::string& root) {
    FileStoreOptions options;
    options.root = options.state_directory = root;
    options.segment_bytes = 1 << 20;
    auto opened = FileStore::open(options, clock_, faults_,
                                  [](StoreLogLevel, std::string_view, const std::string&) {});
    require(opened.ok(), "a store opens whatever its segments hold:", opened.status().text());
    store_ = opened.take();
  }
  // Until that command's own completion; what a scan finds comes before it.
  StoreDone run(StoreCommand command, std::vector<std::unique_ptr<FoundSegment>>* found = nullptr) {
    command.token = ++token_;
    require(store_->submit(std::move(command)), "there is room for a command");
    for (int turn = 0; turn < 100'000; ++turn) {
      StoreDone done;
      while (store_->poll(done)) {
        require(done.token == token_, "a completion is of this command");
        if (!done.found) return done;
        if (found != nullptr) found->push_back(std::move(done.segment));
        done = StoreDone{};
      }
      store_->step();
    }
    require(false, "a command ends");
    return {};
  }

 private:
  Clock1 clock_;
  NoRing faults_;
  std::unique_ptr<FileStore> store_;
  uint64_t token_ = 0;
};

void use_page(Driver& store, const FoundSegment& segment, const FoundPage& page) {
  alignas(4096) static std::byte memory[1 << 20];
  StoreCommand read;
  read.op = StoreOp::kRead;
  read.location = {segment.segment, page.slot};
  read.page = memory;
  read.page_bytes = page.page_bytes;
  const StoreDone done = store.run(std::move(read));
  if (done.status == Code::kOk)
    require(done.record != nullptr && done.record->page_bytes == page.page_bytes,
            "a record is of such a page");
  else
    require(done.status == Code::kCorrupt || done.status == Code::kIoError ||
                done.status == Code::kMiss,
            "a read says what is wrong");
}

void run(FuzzInput in) {
  static Folder folder;
  folder.empty();
  std::map<uint64_t, uint64_t> file_bytes;
  for (int files = 0; files < 6 && !in.empty(); ++files) {
    const auto file = in.take<StoreFile>();
    const uint64_t segment = uint64_t{file.epoch % 3u + 1} << 32 | (file.sequence % 3u + 1);
    const Image image = make_image(file, segment, in);
    decode_and_back(image, segment);
    Folder::write(folder.path + "/" + segment_name(segment), image);
    file_bytes[segment] = image.size();
  }
  Driver store(folder.root);
  std::vector<std::unique_ptr<FoundSegment>> found;
  StoreCommand scan;
  scan.op = StoreOp::kScan;
  require(store.run(std::move(scan), &found).status == Code::kOk, "a scan ends well");
  for (const auto& segment : found) {
    require(file_bytes.count(segment->segment) == 1, "what is found was there");
    for (const FoundPage& page : segment->pages)
      require(page.page_bytes <= file_bytes[segment->segment], "a found page lies in its file");
    for (const FoundPage& page : segment->pages) use_page(store, *segment, page);
    if (!segment->pages.empty()) {
      StoreCommand remove;
      remove.op = StoreOp::kDelete;
      remove.location = {segment->segment, segment->pages[0].slot};
      require(store.run(std::move(remove)).status == Code::kOk, "a page can be deleted");
    }
    StoreCommand unlink;
    unlink.op = StoreOp::kUnlink;
    unlink.location = {segment->segment, 0};
    require(store.run(std::move(unlink)).status == Code::kOk, "a segment can be unlinked");
  }
}

}  // namespace
}  // namespace kvsidecar::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  kvsidecar::fuzz::run(kvsidecar::fuzz::FuzzInput(data, bytes));
  return 0;
}
