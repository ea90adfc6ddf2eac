// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/doctor_usrbio.h"

#include <cerrno>
#include <cstring>
#include <sstream>

#include "clients/cli/doctor_facts.h"
#include "clients/cli/print.h"
#include "ipc/path_answers.h"

namespace kvsidecar {
namespace {

// What the engines' own 3FS clients are given where nobody changes it, for each rank: so many
// client objects, each with a read and a write buffer of so many pages.
constexpr uint64_t kClientsOfRank = 16, kEntriesOfClient = 8, kBuffersOfClient = 2;
constexpr uint64_t kRanks = 8;
constexpr uint64_t kUsualPageBytes = 1 << 20;
constexpr uint64_t kAnswerNs = 5'000'000'000;

bool begins(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

// mountinfo writes space, tab, line break and backslash as octal numbers.
std::string decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 3 >= text.size()) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return out;
}

bool lies_below(const std::string& path, const std::string& mount) {
  return mount == "/" || path == mount || begins(path, (mount + "/").c_str());
}

}  // namespace

std::string mount_3fs_of(const std::string& mountinfo, const std::string& path) {
  std::string best, type_of_best;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, mount, type;
    for (int i = 0; i < 5 && words >> word; ++i) mount = word;
    while (words >> word && word != "-") {
    }
    words >> type;
    mount = decoded(mount);
    // Of two at one place the later one is seen.
    if (mount.empty() || !lies_below(path, mount) || mount.size() < best.size()) continue;
    best = mount;
    type_of_best = type;
  }
  return type_of_best == "fuse.hf3fs" ? best : "";
}

Check check_3fs(const std::string& root, const std::string& mount, int statvfs_error,
                const std::string& described) {
  constexpr const char* kName = "3fs";
  if (mount.empty())
    return {kName, Verdict::kFail, root + " lies on no 3FS mount now: the store's pages are misses",
            "start 3FS's fuse daemon again; the store comes back by itself"};
  const std::string at = "3FS at " + mount;
  if (statvfs_error != 0)
    return {kName, Verdict::kFail, at + " does not answer: " + std::strerror(statvfs_error),
            "unmount it (umount -l) and start 3FS's fuse daemon again; the store comes back by "
            "itself"};
  if (described.empty()) return {kName, Verdict::kOk, at + " answers; no daemon says more", ""};
  if (!begins(described, "usrbio"))
    return {kName, Verdict::kWarn, at + " is reached through the kernel: " + described,
            "set store.kind = \"usrbio\" and read why it is refused, or look for store_kind in the "
            "daemon's log"};
  return {kName, Verdict::kOk, described, ""};
}

Check check_3fs_memory(const Account& account) {
  const bool known = account.slots_full > 0 && account.pool_page_bytes > 0;
  const uint64_t page_bytes =
      known ? account.pool_page_bytes / account.slots_full : kUsualPageBytes;
  const uint64_t rank_bytes = kClientsOfRank * kEntriesOfClient * kBuffersOfClient * page_bytes;
  return {"3fs memory", Verdict::kOk,
          "one pool of " + bytes_text(account.pool_bytes) +
              " for all engines; 3FS clients of their own would hold " +
              std::to_string(kClientsOfRank) + " x " + std::to_string(kEntriesOfClient) + " x " +
              std::to_string(kBuffersOfClient) + " x " + bytes_text(page_bytes) +
              (known ? " (the pages' mean)" : "") + " = " + bytes_text(rank_bytes) +
              " for each rank, " + bytes_text(kRanks * rank_bytes) + " for " +
              std::to_string(kRanks) + ", beside the engines' own pools",
          ""};
}

std::vector<Check> check_3fs_store(const std::string& root, const std::string& described,
                                   const Account* account) {
  const std::string mount =
      root.empty() ? "" : mount_3fs_of(file_text("/proc/self/mountinfo"), root);
  if (mount.empty() && !begins(described, "usrbio")) return {};
  const int error = mount.empty() ? 0 : ask_file_system(mount, kAnswerNs);
  std::vector<Check> checks;
  // The daemon's own store may be named in another file than the one that was read here.
  if (!mount.empty() || !root.empty()) checks.push_back(check_3fs(root, mount, error, described));
  if (account != nullptr) checks.push_back(check_3fs_memory(*account));
  return checks;
}

}  // namespace kvsidecar
