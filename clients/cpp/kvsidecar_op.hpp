// SPDX-License-Identifier: Apache-2.0
// kvsidecar client, C++20 API: outcomes and operations, header-only over the C ABI (no C++ type
// crosses the library). Nothing throws. Threads, blocking and ownership are those of the C calls,
// which each comment names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "kvsidecar.h"

namespace kvsidecar::client {

inline constexpr uint64_t kForever = UINT64_MAX;

// A status and its sentence.
class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  explicit Outcome(kvs_status status)
      : status_(status), text_(status == KVS_OK ? "" : kvs_last_error()) {}
  Outcome(kvs_status status, std::string text) : status_(status), text_(std::move(text)) {}
  bool ok() const { return status_ == KVS_OK; }
  explicit operator bool() const { return ok(); }
  kvs_status status() const { return status_; }
  std::string_view name() const { return kvs_status_name(status_); }
  const std::string& text() const { return text_; }

 private:
  kvs_status status_ = KVS_OK;
  std::string text_;
};

// A value, or the outcome that says why there is none.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}              // NOLINT: implicit on purpose
  Expected(Outcome outcome) : outcome_(std::move(outcome)) {}  // NOLINT
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return &*value_; }
  const Outcome& outcome() const { return outcome_; }

 private:
  std::optional<T> value_;
  Outcome outcome_;
};

// Keys of one length, end to end, as a view.
inline kvs_keys keys(std::span<const std::byte> bytes, uint32_t key_bytes) {
  return {bytes.data(), key_bytes,
          key_bytes == 0 ? 0 : static_cast<uint32_t>(bytes.size() / key_bytes)};
}

// Items that are blocks of one layout, as a view.
inline kvs_items blocks(kvs_layout layout, std::span<const uint32_t> numbers) {
  kvs_items items{};
  items.layout = layout;
  items.blocks = numbers.data();
  return items;
}

// One operation in flight, like a future: owns the id, frees it at the end (a get that is being
// copied at that moment is waited for). Move-only; must not outlive its Client.
class Op {
 public:
  Op() = default;
  Op(kvs_client* client, kvs_op id) : client_(client), id_(id) {}
  Op(Op&& other) noexcept
      : client_(other.client_), id_(std::exchange(other.id_, 0)), result_(other.result_) {}
  Op& operator=(Op&& other) noexcept {
    if (this != &other) {
      reset();
      client_ = other.client_;
      id_ = std::exchange(other.id_, 0);
      result_ = other.result_;
    }
    return *this;
  }
  ~Op() { reset(); }

  kvs_op id() const { return id_; }
  // kvs_wait, then kvs_result_get. KVS_TIMEOUT: not finished yet.
  Outcome wait(uint64_t timeout_ns = kForever) {
    if (const kvs_status waited = kvs_wait(client_, id_, timeout_ns); waited != KVS_OK)
      return Outcome(waited);
    return read_result();
  }
  // Whether it has finished; takes answers in, never blocks.
  bool finished() { return read_result().status() != KVS_BUSY || result_.struct_size != 0; }

  // The rest needs a wait() that found it finished (or finished() == true); views live as long as
  // this object.
  kvs_status status() const { return result_.status; }
  std::span<const uint8_t> items() const { return {result_.items, items_count(result_.items)}; }
  std::span<const uint8_t> places() const { return {result_.places, items_count(result_.places)}; }
  bool restorable(uint64_t pages) const {
    return pages >= 1 && (pages - 1) / 8 < result_.restorable_bytes &&
           ((result_.restorable[(pages - 1) / 8] >> ((pages - 1) % 8)) & 1) != 0;
  }
  uint64_t longest() const { return result_.longest; }
  uint64_t lease() const { return result_.lease; }
  std::string_view text() const { return {result_.text, result_.text_bytes}; }
  const kvs_result& result() const { return result_; }
  // Items whose status is one of OK, OK_PART, EXISTS.
  size_t succeeded() const {
    size_t count = 0;
    for (const uint8_t item : items()) count += item <= KVS_EXISTS ? 1u : 0u;
    return count;
  }

  Outcome cancel(uint8_t* free_items = nullptr) {
    return Outcome(kvs_cancel(client_, id_, free_items));
  }
  // Runs of each block that are in place, of a layered get.
  uint64_t progress() const {
    uint64_t runs = 0;
    return kvs_progress(client_, id_, &runs) == KVS_OK ? runs : 0;
  }

 private:
  size_t items_count(const void* data) const { return data == nullptr ? 0 : result_.item_count; }
  Outcome read_result() {
    kvs_result result{};
    result.struct_size = sizeof result;
    if (const kvs_status read = kvs_result_get(client_, id_, &result); read != KVS_OK)
      return Outcome(read);
    result_ = result;
    return result_.status == KVS_OK ? Outcome() : Outcome(result_.status, std::string(text()));
  }
  void reset() {
    if (id_ == 0) return;
    while (kvs_op_free(client_, id_) == KVS_BUSY) (void)kvs_wait(client_, id_, kForever);
    id_ = 0;
  }

  kvs_client* client_ = nullptr;
  kvs_op id_ = 0;
  kvs_result result_{};
};

}  // namespace kvsidecar::client
