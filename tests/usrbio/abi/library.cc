// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/library.h"

#include <dlfcn.h>

namespace kvsidecar::abi {

Library open(const std::string& path, std::string& wrong) {
  Library library;
  library.path = path;
  library.handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library.handle == nullptr) {
    wrong = ::dlerror();
    return library;
  }
  const auto find = [&](auto& function, const char* name) {
    void* found = ::dlsym(library.handle, name);
    if (found == nullptr) wrong += path + " has no " + name + ". ";
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define KVS_FIND(name, result, parameters) find(library.name, "hf3fs_" #name);
  KVS_HF3FS_FUNCTIONS(KVS_FIND)
#undef KVS_FIND
  return library;
}

}  // namespace kvsidecar::abi
