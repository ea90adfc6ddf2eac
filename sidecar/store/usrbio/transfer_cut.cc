// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/transfer_cut.h"

#include <algorithm>

namespace kvsidecar {

std::vector<TransferRequest> cut_transfer(const Transfer& transfer, const MemoryTable& memories,
                                          uint64_t chunk_bytes, uint64_t staged_bytes_max) {
  std::vector<TransferRequest> requests;
  uint64_t offset = transfer.offset;
  for (const std::span<std::byte>& piece : transfer.pieces) {
    const usrbio::Memory* memory =
        piece.empty() ? nullptr : memories.find(piece.data(), piece.size());
    for (uint64_t at = 0; at < piece.size();) {
      uint64_t bytes = std::min<uint64_t>(piece.size() - at, chunk_bytes - offset % chunk_bytes);
      if (memory == nullptr) bytes = std::min(bytes, staged_bytes_max);
      requests.push_back(
          {.memory = memory, .data = piece.data() + at, .bytes = bytes, .offset = offset});
      at += bytes;
      offset += bytes;
    }
  }
  return requests;
}

int64_t joined_result(const std::vector<TransferRequest>& requests) {
  int64_t moved = 0;
  for (const TransferRequest& request : requests) {
    if (!request.ended) break;
    if (request.result < 0) return moved > 0 ? moved : request.result;
    moved += request.result;
    if (static_cast<uint64_t>(request.result) < request.bytes) break;
  }
  return moved;
}

}  // namespace kvsidecar
