// SPDX-License-Identifier: Apache-2.0
// Goal: each thing that keeps a daemon or a client from working is named, with its remedy, and what
// works isn't complained about. Method: facts made by hand; the facts of this machine once.
#include <gtest/gtest.h>

#include <cerrno>

#include "clients/cli/doctor_facts.h"

namespace kvsidecar {
namespace {

SocketFacts good_socket() {
  SocketFacts facts;
  facts.path = "/run/kvsidecar/kvsidecar.sock";
  facts.is_socket = facts.in_group = facts.may_connect = true;
  facts.mode = 0660;
  facts.owner = facts.group = "kvsidecar";
  return facts;
}

void expect(const Check& check, Verdict verdict, const std::string& words) {
  EXPECT_EQ(check.verdict, verdict) << check_text(check);
  EXPECT_NE(check_text(check).find(words), std::string::npos) << check_text(check);
  EXPECT_EQ(check.remedy.empty(), verdict == Verdict::kOk) << check_text(check);
}

TEST(Doctor, ASocketThatAnswersIsOk) { expect(check_socket(good_socket()), Verdict::kOk, "0660"); }

// O6-05
TEST(Doctor, EachWayInWhichASocketCantBeReachedHasItsRemedy) {
  SocketFacts facts = good_socket();
  facts.stat_error = ENOENT;
  expect(check_socket(facts), Verdict::kFail, "systemctl start kvsidecar");
  facts.stat_error = EACCES;
  expect(check_socket(facts), Verdict::kFail, "usermod -aG kvsidecar");
  facts = good_socket();
  facts.is_socket = false;
  expect(check_socket(facts), Verdict::kFail, "not a socket");
  facts = good_socket();
  facts.may_connect = facts.in_group = false;
  expect(check_socket(facts), Verdict::kFail, "isn't in its group");
  facts = good_socket();
  facts.connect_error = ECONNREFUSED;
  expect(check_socket(facts), Verdict::kFail, "nobody listens");
  facts = good_socket();
  facts.mode = 0666;
  expect(check_socket(facts), Verdict::kWarn, "every user");
}

TEST(Doctor, ASessionThatIsDeniedNamesTheConfiguration) {
  expect(check_session(Code::kDenied, "uid 7", 0), Verdict::kFail, "[[allow]]");
  expect(check_session(Code::kUnsupportedVersion, "major 9", 0), Verdict::kFail, "one release");
  expect(check_session(Code::kOk, "", 0), Verdict::kWarn, "PID namespace");
  expect(check_session(Code::kOk, "", 12), Verdict::kOk, "12");
}

TEST(Doctor, PoolsThatNobodyMapsAreLeftovers) {
  ShmFacts facts;
  facts.directory = "/dev/shm";
  facts.total_bytes = facts.free_bytes = uint64_t{8} << 30;
  facts.saw_all_processes = true;
  facts.pools = {{"node", 2, uint64_t{2} << 30, true}};
  expect(check_shm_leftovers(facts), Verdict::kOk, "in use");
  facts.pools.push_back({"old", 1, uint64_t{1} << 30, false});
  expect(check_shm_leftovers(facts), Verdict::kWarn, "old (1.0 GiB)");
  expect(check_shm_size(facts), Verdict::kOk, "3.0 GiB in host pools");
  facts.saw_all_processes = false;
  expect(check_shm_leftovers(facts), Verdict::kWarn, "as far as this user can see");
}

TEST(Doctor, ASmallShmAndSmallMemlockAreWarnings) {
  ShmFacts facts;
  facts.directory = "/dev/shm";
  facts.total_bytes = facts.free_bytes = 64 << 20;
  expect(check_shm_size(facts), Verdict::kWarn, "--shm-size");
  facts.error = ENOENT;
  expect(check_shm_size(facts), Verdict::kFail, "tmpfs");
  expect(check_memlock("the daemon", 8 << 20), Verdict::kWarn, "LimitMEMLOCK=infinity");
  expect(check_memlock("the daemon", std::nullopt), Verdict::kOk, "all memory");
}

TEST(Doctor, IoUringAndDirectAndKernelAreJudged) {
  expect(check_io_uring(0), Verdict::kOk, "works");
  expect(check_io_uring(ENOSYS), Verdict::kFail, "5.11");
  expect(check_io_uring(EPERM), Verdict::kFail, "seccomp");
  expect(check_direct("/store", 0), Verdict::kOk, "/store");
  expect(check_direct("/store", EINVAL), Verdict::kWarn, "page cache");
  expect(check_direct("/store", ENOENT), Verdict::kFail, "owned by the daemon's user");
  expect(check_direct("", 0), Verdict::kWarn, "--store");
  expect(check_store("file (O_DIRECT)"), Verdict::kOk, "O_DIRECT");
  expect(check_store("file (buffered)"), Verdict::kWarn, "ext4");
  expect(check_store("none"), Verdict::kWarn, "store.root");
  expect(check_digest(true, true), Verdict::kOk, "avx512");
  expect(check_digest(false, false), Verdict::kWarn, "CPU flags");
  expect(check_kernel("6.1.0-18-amd64"), Verdict::kOk, "6.1.0");
  expect(check_kernel("5.10.0"), Verdict::kFail, "5.11");
  expect(check_kernel("unknown"), Verdict::kWarn, "5.11");
}

TEST(Doctor, TheStoresDirectoryIsReadFromItsTableAlone) {
  EXPECT_EQ(store_root_in("[store]\n# root = \"/no\"\nroot = \"/a b\" # here\n"), "/a b");
  EXPECT_EQ(store_root_in("[daemon]\nroot = \"/no\"\n[store]\nkind = \"file\"\n"), "");
  EXPECT_EQ(store_root_in("[store]\n  root='/x'\n[metrics]\nroot = \"/no\"\n"), "/x");
  EXPECT_EQ(store_root_in(""), "");
}

TEST(Doctor, JsonSaysTheSame) {
  const std::string json = checks_json({check_io_uring(0), check_kernel("5.4")});
  EXPECT_NE(json.find("\"verdict\": \"ok\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"verdict\": \"fail\""), std::string::npos) << json;
}

TEST(Doctor, ThisMachineCanBeLookedAt) {
  EXPECT_EQ(check_kernel(kernel_release()).name, "kernel");
  EXPECT_EQ(socket_facts("/nowhere/at.all").stat_error, ENOENT);
  EXPECT_EQ(shm_facts("/nowhere").error, ENOENT);
  EXPECT_GT(shm_facts("/dev/shm").total_bytes, 0u);
  EXPECT_EQ(direct_error("/nowhere"), ENOENT);
}

}  // namespace
}  // namespace kvsidecar
