// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/library_functions.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace kvsidecar::usrbio {
namespace {

constexpr const char* kLogVariable = "HF3FS_USRBIO_LIB_LOG";

Result<std::string> file_of(const std::string& library) {
  if (library.empty()) return std::string(abi::kLibraryName);
  struct stat facts {};
  if (::stat(library.c_str(), &facts) != 0)
    return Status(Code::kUnavailable, "the 3FS library " + library + " can't be opened (" +
                                          std::strerror(errno) +
                                          "): name the file libhf3fs_api_shared.so or the folder "
                                          "that holds it, or use the builtin client");
  return S_ISDIR(facts.st_mode) ? library + "/" + abi::kLibraryName : library;
}

template <typename Function>
bool find(void* handle, const char* name, Function*& into, std::string& missing) {
  into = reinterpret_cast<Function*>(::dlsym(handle, name));
  if (into == nullptr && missing.empty()) missing = name;
  return into != nullptr;
}

std::string path_of(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name[0] == '\0')
    return asked;
  return map->l_name;
}

std::string first_missing(void* handle, LibraryFunctions& f) {
  std::string missing;
  find(handle, "hf3fs_is_hf3fs", f.is_hf3fs, missing);
  find(handle, "hf3fs_extract_mount_point", f.extract_mount_point, missing);
  find(handle, "hf3fs_iovwrap", f.iov_wrap, missing);
  find(handle, "hf3fs_iorcreate4", f.ior_create, missing);
  find(handle, "hf3fs_iordestroy", f.ior_destroy, missing);
  find(handle, "hf3fs_reg_fd", f.reg_fd, missing);
  find(handle, "hf3fs_dereg_fd", f.dereg_fd, missing);
  find(handle, "hf3fs_prep_io", f.prep_io, missing);
  find(handle, "hf3fs_submit_ios", f.submit_ios, missing);
  find(handle, "hf3fs_wait_for_ios", f.wait_for_ios, missing);
  return missing;
}

void add_note(std::string& notes, const std::string& note) {
  if (!note.empty()) notes += (notes.empty() ? "" : " ") + note;
}

// What was changed stays changed, also where loading failed.
std::string after_all(const std::string& notes) { return notes.empty() ? "" : " (" + notes + ")"; }

}  // namespace

std::string lower_open_files_limit(uint64_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max <= most) return "";
  const std::string before =
      limit.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(limit.rlim_max);
  const rlimit lowered{std::min<rlim_t>(limit.rlim_cur, most), most};
  if (::setrlimit(RLIMIT_NOFILE, &lowered) != 0) return "";
  return "The hard limit of open files was lowered from " + before + " to " + std::to_string(most) +
         ": the 3FS library allocates memory for each possible one.";
}

Result<LibraryFunctions> load_library(const std::string& library) {
  const auto file = file_of(library);
  if (!file) return file.status();
  LibraryFunctions functions;
  add_note(functions.notes, lower_open_files_limit(kOpenFilesMax));
  if (std::getenv(kLogVariable) != nullptr) {
    ::unsetenv(kLogVariable);
    add_note(functions.notes, std::string("The environment's ") + kLogVariable +
                                  " was cleared: the 3FS library ends the process if it can't "
                                  "read it.");
  }
  // NODELETE: its threads and static objects don't survive dlclose(). LOCAL: it exports thousands
  // of symbols of its own libraries.
  void* handle = guarded<>(static_cast<void*>(nullptr), [&] {
    return ::dlopen(file->c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  });
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return Status(Code::kUnavailable,
                  "the 3FS library can't be loaded (" + std::string(why ? why : "it threw") +
                      "): install what it needs or name another one (store.usrbio.library), or "
                      "use the builtin client" +
                      after_all(functions.notes));
  }
  functions.path = path_of(handle, *file);
  const std::string missing = first_missing(handle, functions);
  if (!missing.empty())
    return invalid(functions.path + " has no function " + missing +
                   ": it isn't 3FS's libhf3fs_api_shared.so; name that file, or use the builtin "
                   "client" +
                   after_all(functions.notes));
  return functions;
}

}  // namespace kvsidecar::usrbio
