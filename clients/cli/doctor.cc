// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "clients/cli/account.h"
#include "clients/cli/commands.h"
#include "clients/cli/doctor_account.h"
#include "clients/cli/doctor_facts.h"
#include "clients/cli/doctor_usrbio.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

constexpr const char* kDefaultSocket = "/run/kvsidecar/kvsidecar.sock";
constexpr const char* kShm = "/dev/shm";

std::string socket_of(const Target& target) {
  if (!target.socket.empty()) return target.socket;
  const char* named = std::getenv("KVSIDECAR_SOCKET");
  return named != nullptr && *named != '\0' ? named : kDefaultSocket;
}

bool has_avx(bool wide) {
#if defined(__x86_64__)
  return wide ? __builtin_cpu_supports("avx512f") != 0 : __builtin_cpu_supports("avx2") != 0;
#else
  return !wide;
#endif
}

// What only a daemon that answers can tell. Gives its pid, 0 when there is none.
int ask_daemon(const Target& target, std::vector<Check>& checks, Result<Account>& account) {
  auto asker = Asker::open(target);
  if (!asker) {
    checks.push_back(check_session(asker.status().code(), asker.status().text(), 0));
    return 0;
  }
  const int pid = asker->daemon_pid();
  checks.push_back(check_session(Code::kOk, "", pid));
  auto text = asker->stat(KVS_STAT_STATUS);
  account = text ? parse_account(*text) : Result<Account>(text.status());
  if (account) {
    checks.push_back(check_host_pool(*account));
    checks.push_back(check_store(account->store));
    if (account->store != "none") checks.push_back(check_store_writes(*account));
  }
  return pid;
}

}  // namespace

int run_doctor(const Target& target, const DoctorOptions& options) {
  std::vector<Check> checks;
  const SocketFacts socket = socket_facts(socket_of(target));
  checks.push_back(check_socket(socket));
  Result<Account> account = Status(Code::kUnavailable, "no daemon was asked");
  int pid = 0;
  if (checks.back().verdict != Verdict::kFail) pid = ask_daemon(target, checks, account);
  std::string store = options.store;
  if (store.empty()) store = store_root_in(file_text(options.config));
  bool store_answers = true;
  for (Check& check :
       check_3fs_store(store, account ? account->store : "", account ? &*account : nullptr)) {
    store_answers = store_answers && check.verdict != Verdict::kFail;
    checks.push_back(std::move(check));
  }
  if (store_answers && (!account || !options.store.empty()))
    checks.push_back(check_direct(store, store.empty() ? 0 : direct_error(store)));
  const ShmFacts shm = shm_facts(kShm);
  checks.push_back(check_shm_size(shm));
  checks.push_back(check_shm_leftovers(shm));
  checks.push_back(check_memlock(pid > 0 ? "the daemon" : "this shell", memlock_limit(pid)));
  checks.push_back(check_io_uring(io_uring_error()));
  checks.push_back(check_digest(has_avx(false), has_avx(true)));
  checks.push_back(check_kernel(kernel_release()));
  if (target.json)
    std::printf("%s\n", checks_json(checks).c_str());
  else
    for (const Check& check : checks) std::printf("%s", check_text(check).c_str());
  const bool failed = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.verdict == Verdict::kFail;
  });
  return failed ? kExitFailed : 0;
}

}  // namespace kvsidecar
