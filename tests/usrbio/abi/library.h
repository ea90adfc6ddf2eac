// SPDX-License-Identifier: Apache-2.0
// A library with the 21 functions, opened by its path.
#pragma once
#include <string>

#include "tests/usrbio/abi/hf3fs_abi.h"

namespace kvsidecar::abi {

struct Library {
#define KVS_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  KVS_HF3FS_FUNCTIONS(KVS_MEMBER)
#undef KVS_MEMBER
  void* handle = nullptr;
  std::string path;
};

// Never closed again. On an error `wrong` says what, else it is empty.
Library open(const std::string& path, std::string& wrong);

}  // namespace kvsidecar::abi
