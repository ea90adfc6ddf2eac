// SPDX-License-Identifier: Apache-2.0
// Writes pages into a namespace and reads each back. One thread; blocks until the daemon has
// answered, at most a minute an operation.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/import/record_key.h"
#include "clients/cli/import/target_namespace.h"

namespace kvsidecar {

// Pages that are held in memory at once, twice: what is written, and what is read back.
uint32_t batch_pages(uint64_t page_bytes);

// A page of a batch.
struct BatchPage {
  PageKey key;
  std::string description;
  std::string left_out;  // why it isn't there; empty: it is
  bool existed = false;  // somebody else has stored it meanwhile
};

class PageWriter {
 public:
  // durable: a page counts once the store has it.
  static Result<PageWriter> make(client::Client& client, const TargetNamespace& target,
                                 bool durable);
  uint32_t capacity() const { return blocks_; }
  // Where the bytes of page `block` of the next batch go: all its parts, end to end.
  std::span<std::byte> page(uint32_t block) {
    return source_.bytes().subspan(block * page_bytes_, page_bytes_);
  }
  uint64_t part_offset(size_t part) const { return offsets_[part]; }
  // Which of these keys have a page already.
  Result<std::vector<bool>> there(const std::vector<PageKey>& keys);
  // Stores batch[i] from page(i) and compares what comes back. An error: nothing more can be
  // written.
  Status write(std::vector<BatchPage>& batch);

 private:
  PageWriter(client::Client& client, kvs_namespace ns, client::Memory source, client::Memory back)
      : client_(&client), ns_(ns), source_(std::move(source)), back_(std::move(back)) {}
  Status lay_out(const TargetNamespace& target);
  Status put_part(std::vector<BatchPage>& batch, size_t part);
  Status put_once(std::vector<BatchPage>& batch, size_t part, std::vector<uint32_t>& blocks);
  Status get_part(std::vector<BatchPage>& batch, size_t part);
  void compare(std::vector<BatchPage>& batch);
  void remove(const PageKey& key);

  client::Client* client_;
  kvs_namespace ns_;
  client::Memory source_, back_;
  std::vector<kvs_layout> from_, to_;  // of each part
  std::vector<kvs_coordinate> coordinates_;
  std::vector<uint64_t> offsets_;  // of each part in the page
  uint64_t page_bytes_ = 0;
  uint32_t blocks_ = 0;
  bool durable_ = false;
};

}  // namespace kvsidecar
