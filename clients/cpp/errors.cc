// SPDX-License-Identifier: Apache-2.0
#include "clients/cpp/errors.h"

namespace kvsidecar::clientlib {
namespace {

thread_local std::string last_text;

}  // namespace

kvs_status fail(Code code, std::string text) {
  last_text = std::move(text);
  return static_cast<kvs_status>(code);
}

kvs_status told(const Status& status) {
  if (status.ok()) return KVS_OK;
  return fail(status.code(), status.text());
}

const char* last_error() { return last_text.c_str(); }

}  // namespace kvsidecar::clientlib
