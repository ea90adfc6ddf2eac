// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or a Status (code and one sentence). No exceptions cross a file of this
// project. KV_CHECK: for our own bugs only; it stays on in release builds and aborts with file and
// line.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "ipc/status.h"

namespace kvsidecar {

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  // One sentence: field, value, remedy. Empty when ok.
  const std::string& text() const { return text_; }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

inline Status invalid(std::string text) { return {Code::kInvalid, std::move(text)}; }
// A system call failed: "what: strerror(error)". Code kInternal unless another is given.
Status os_error(const std::string& what, int error, Code code = Code::kInternal);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT
  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Status& status() const { return status_; }
  T take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "kvsidecar: check failed: %s at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace kvsidecar

#define KV_CHECK(condition) \
  ((condition) ? (void)0 : ::kvsidecar::check_failed(#condition, __FILE__, __LINE__))
