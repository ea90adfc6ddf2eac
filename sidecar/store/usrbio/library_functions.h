// SPDX-License-Identifier: Apache-2.0
// The site's libhf3fs_api_shared.so, opened at run time and never closed: the functions that we
// call, each behind a guard, since any of them may throw through its C interface.
#pragma once
#include <string>
#include <utility>

#include "ipc/result.h"
#include "sidecar/store/usrbio/abi.h"

namespace kvsidecar::usrbio {

struct LibraryFunctions {
  std::string path;   // where the loader found it
  std::string notes;  // what loading changed in this process, finished sentences; may be empty
  abi::IsHf3fs* is_hf3fs = nullptr;
  abi::ExtractMountPoint* extract_mount_point = nullptr;
  abi::IovWrap* iov_wrap = nullptr;
  abi::IorCreate4* ior_create = nullptr;
  abi::IorDestroy* ior_destroy = nullptr;
  abi::RegFd* reg_fd = nullptr;
  abi::DeregFd* dereg_fd = nullptr;
  abi::PrepIo* prep_io = nullptr;
  abi::SubmitIos* submit_ios = nullptr;
  abi::WaitForIos* wait_for_ios = nullptr;
};

// library: a file's path, a folder that holds it, or empty = what the loader finds. kUnavailable:
// it can't be opened; kInvalid: it lacks a function, which the sentence names. Before it is opened:
// - the hard limit of open files is lowered to 65,536 if it is higher: the library allocates for
//   each possible descriptor (8 GiB at the limit that containers have);
// - HF3FS_USRBIO_LIB_LOG is cleared: a malformed one ends the process inside dlopen().
// Changes the process: before other threads read its environment.
Result<LibraryFunctions> load_library(const std::string& library);

inline constexpr uint64_t kOpenFilesMax = 65'536;
// The note about it, empty if the limit was lower already.
std::string lower_open_files_limit(uint64_t most);

// What the call returns, or `thrown` if it throws.
template <typename Call, typename Value>
Value guarded(Value thrown, Call&& call) noexcept {
  try {
    return std::forward<Call>(call)();
  } catch (...) {
    return thrown;
  }
}

}  // namespace kvsidecar::usrbio
