// SPDX-License-Identifier: Apache-2.0
// A transfer cut into requests that lie in one chunk of the file each. Pure; any thread.
//
// Why: a request that spans chunks sees a hole in front of data as zeros, and the server may count
// the hole of one request to the next of the same job, so that "all was read" isn't true. Within
// one chunk neither can be: what is missing is missing at the end, and the count says so.
#pragma once
#include <vector>

#include "sidecar/store/transfer_path.h"
#include "sidecar/store/usrbio/memory_table.h"

namespace kvsidecar {

struct TransferRequest {
  const usrbio::Memory* memory = nullptr;  // null: goes through a staging buffer
  std::byte* data = nullptr;
  uint64_t bytes = 0, offset = 0;  // in the file
  int64_t result = 0;
  bool ended = false;
};

// staged_bytes_max: of a request whose memory isn't registered.
std::vector<TransferRequest> cut_transfer(const Transfer& transfer, const MemoryTable& memories,
                                          uint64_t chunk_bytes, uint64_t staged_bytes_max);

// What was moved from the beginning without a gap; the error where nothing was. Requests that were
// never started count as not moved.
int64_t joined_result(const std::vector<TransferRequest>& requests);

}  // namespace kvsidecar
