// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/segment_reader.h"

#include <cerrno>
#include <cstring>

#include "sidecar/store/segment_format.h"

namespace kvsidecar {
namespace {

struct Reading {
  StoreParts& parts;
  StoreCommand command;
  ReadDone done;
  SegmentFilePtr file;
  uint64_t offset = 0, trailer_bytes = 0;
  BouncePool::Buffer bounce;
  int left = 0, error = 0;
  bool cut = false;
};
using ReadingPtr = std::shared_ptr<Reading>;

void finish(Reading& r, const std::byte* trailer) {
  r.parts.io_ended(false, r.error);
  if (r.error != 0 || r.cut) {
    // A file that ends early costs this page; the device is well.
    if (r.cut) r.parts.counters->cut_pages.fetch_add(1, std::memory_order_relaxed);
    return r.done(Code::kIoError, nullptr);
  }
  r.parts.counters->bytes_read.fetch_add(r.command.page_bytes, std::memory_order_relaxed);
  auto record = decode_record({trailer, r.trailer_bytes});
  if (!record || record->page_bytes != r.command.page_bytes) return r.done(Code::kCorrupt, nullptr);
  r.done(Code::kOk, std::make_unique<PageRecord>(record.take()));
}

void ended(Reading& r, int64_t result, uint64_t needed) {
  if (result < 0)
    r.error = static_cast<int>(-result);
  else if (static_cast<uint64_t>(result) < needed)
    r.cut = true;
}

void read_large(const ReadingPtr& r) {
  const uint64_t page = align_up(r->command.page_bytes, kBlockBytes);
  const uint64_t trailer = align_up(r->trailer_bytes, kBlockBytes);
  r->bounce = r->parts.bounce->take(trailer);
  const int fd = r->file->fd.get();
  if (!r->parts.io->is_registered(r->command.page, page)) {
    auto io = make_transfer(IoKind::kRead, fd, r->offset, r->command.page, page,
                            [r, page](int64_t result) {
                              ended(*r, result, page + r->trailer_bytes);
                              finish(*r, r->bounce.get());
                            });
    io->pieces[1] = {r->bounce.get(), trailer};
    io->piece_count = 2;
    io->prefetch = r->command.prefetch;
    return r->parts.io->start(std::move(io));
  }
  r->left = 2;
  const auto piece = [&](uint64_t offset, std::byte* data, uint64_t bytes, uint64_t needed) {
    auto io = make_transfer(IoKind::kRead, fd, offset, data, bytes, [r, needed](int64_t result) {
      ended(*r, result, needed);
      if (--r->left == 0) finish(*r, r->bounce.get());
    });
    io->prefetch = r->command.prefetch;
    r->parts.io->start(std::move(io));
  };
  piece(r->offset, r->command.page, page, r->command.page_bytes);
  piece(r->offset + page, r->bounce.get(), trailer, r->trailer_bytes);
}

void read_packed(const ReadingPtr& r) {
  const uint64_t page_bytes = r->command.page_bytes;
  const uint64_t begin = align_down(r->offset, kBlockBytes), skip = r->offset - begin;
  const uint64_t trailer = trailer_offset(r->offset, page_bytes) - begin;
  const uint64_t bytes = align_up(trailer + r->trailer_bytes, kBlockBytes);
  r->bounce = r->parts.bounce->take(bytes);
  auto io = make_transfer(IoKind::kRead, r->file->fd.get(), begin, r->bounce.get(), bytes,
                          [r, skip, trailer, page_bytes](int64_t result) {
                            ended(*r, result, trailer + r->trailer_bytes);
                            if (r->error == 0 && !r->cut)
                              std::memcpy(r->command.page, r->bounce.get() + skip, page_bytes);
                            finish(*r, r->bounce.get() + trailer);
                          });
  io->prefetch = r->command.prefetch;
  r->parts.io->start(std::move(io));
}

}  // namespace

void read_page(StoreParts& parts, StoreCommand&& command, ReadDone done) {
  const SegmentFilePtr file = parts.files->find(command.location.segment);
  const auto place = file == nullptr ? std::nullopt : file->slots.find(command.location.slot);
  if (!place.has_value() || file->page_bytes != command.page_bytes)
    return done(Code::kMiss, nullptr);
  auto r = std::make_shared<Reading>(Reading{.parts = parts,
                                             .command = std::move(command),
                                             .done = std::move(done),
                                             .file = file,
                                             .offset = place->offset,
                                             .trailer_bytes = place->trailer_bytes});
  parts.files->with_open(file, false, [r](int error) {
    if (error != 0) {
      // ENOENT: somebody removed the file; ESTALE: a network file system lost it.
      const bool gone = error == ENOENT || error == ESTALE;
      r->parts.io_ended(false, gone ? 0 : error);
      return r->done(gone ? Code::kMiss : Code::kIoError, nullptr);
    }
    if (r->file->page_bytes < kPackedBytes)
      read_packed(r);
    else
      read_large(r);
  });
}

}  // namespace kvsidecar
