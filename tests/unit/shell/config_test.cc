// SPDX-License-Identifier: Apache-2.0
// Goal: every key can be set, printed and read back; every mistake in a configuration is refused
// with the key, the value and the remedy. Method: small TOML texts through parse_config.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "sidecar/shell/config_file.h"
#include "sidecar/shell/config_keys.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

Config good(const std::string& text) {
  Result<Config> config = parse_config(text, "test.toml");
  EXPECT_TRUE(config.ok()) << config.status().text();
  return config.ok() ? *config : Config();
}

// The error of a text that must be refused; each of `parts` must be in it.
void refused(const std::string& text, const std::vector<std::string>& parts) {
  const Result<Config> config = parse_config(text, "test.toml");
  ASSERT_FALSE(config.ok()) << text;
  EXPECT_EQ(config.status().code(), Code::kInvalid);
  for (const std::string& part : parts)
    EXPECT_NE(config.status().text().find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << config.status().text();
}

TEST(Config, AnEmptyFileGivesTheDefaultsAndWhatIsDerivedFromThem) {
  const Config config = good("");
  EXPECT_EQ(config.socket, "/run/kvsidecar/kvsidecar.sock");
  EXPECT_EQ(config.pool_name, pool_name_for("/run/kvsidecar"));
  EXPECT_EQ(config.pool_bytes, kAuto);
  EXPECT_EQ(config.store_kind, StoreKind::kNone);
  EXPECT_GE(config.copy_threads, 1u);
  EXPECT_GE(config.hash_threads, 1u);
}

TEST(Config, TwoRuntimeDirectoriesHaveTwoPools) {
  EXPECT_NE(pool_name_for("/run/a"), pool_name_for("/run/b"));
  EXPECT_EQ(pool_name_for("/run/a").size(), 12u);
}

TEST(Config, SizesDurationsAndChoicesAreRead) {
  const Config config = good(R"(
    [daemon]
    supervisor_timeout_s = 0.5
    log_level = "warning"
    spin_us = 20
    [host_pool]
    bytes = "8GiB"
    chunk_bytes = 268435456
    [store]
    root = "/data"
    stall_ms = 250
    admission = "second_use"
    verify = "always")");
  EXPECT_EQ(config.supervisor_timeout_ns, 500'000'000u);
  EXPECT_EQ(config.log_level, LogLevel::kWarning);
  EXPECT_EQ(config.spin_ns, 20'000u);
  EXPECT_EQ(config.pool_bytes, 8ull << 30);
  EXPECT_EQ(config.chunk_bytes, 256ull << 20);
  EXPECT_EQ(config.store_kind, StoreKind::kAuto) << "what lies there is seen when it is opened";
  EXPECT_EQ(config.limits.store_stall_ns, 250'000'000u);
  EXPECT_EQ(config.limits.admission, Admission::kSecondUse);
  EXPECT_EQ(config.limits.verify, Verify::kAlways);
}

TEST(Config, EveryKeyIsPrintedAndReadBackTheSame) {
  Config changed = good("[store]\nroot = \"/data\"\n[limits]\nsessions_max = 7\n");
  changed.limits.lease_max_ns = 1'500'000'000;
  const std::string printed = print_config(changed);
  for (const ConfigKey& key : config_keys())
    EXPECT_NE(printed.find(std::string("\n") + key.name + " = "), std::string::npos) << key.name;
  EXPECT_EQ(print_config(good(printed)), printed);
}

TEST(Config, AllowEntriesArePrintedAndReadBackTheSame) {
  const std::string printed = print_config(
      good("[[allow]]\nuid = [1, 2]\npermissions = [\"read\"]\npool_bytes_max = \"1GiB\"\n"));
  EXPECT_NE(printed.find("[[allow]]"), std::string::npos);
  EXPECT_EQ(print_config(good(printed)), printed);
}

TEST(Config, TheDefaultFileHoldsEveryKeyAndChangesNothingWhenUncommented) {
  std::string uncommented, line;
  std::istringstream lines(print_default_file());
  size_t keys = 0;
  while (std::getline(lines, line) && line.find("[[allow]]") == std::string::npos) {
    const bool key = line.size() > 1 && line[0] == '#' && line[1] != ' ';
    keys += key ? 1 : 0;
    uncommented += (key ? line.substr(1) : line) + "\n";
  }
  EXPECT_EQ(keys, config_keys().size());
  EXPECT_EQ(print_config(good(uncommented)), print_config(good("")));
  EXPECT_EQ(print_config(good(print_default_file())), print_config(good("")));
}

TEST(Config, TheExampleOfAnAllowEntryIsOne) {
  std::string text, line;
  std::istringstream lines(print_default_file());
  bool allow = false;
  while (std::getline(lines, line)) {
    allow = allow || line == "#[[allow]]";
    if (allow && line.find("group = ") == std::string::npos) text += line.substr(1) + "\n";
  }
  EXPECT_EQ(good(text).allow.size(), 1u) << text;
}

TEST(Config, ThePackagedFileIsTheOneThatTheProgramPrints) {
  std::ifstream file(KVSIDECAR_DEFAULT_FILE);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), print_default_file())
      << "run: kvsidecard --print-default-config > packaging/common/kvsidecar.toml";
}

TEST(Config, EveryKeyIsInTheManPageWithAHelp) {
  const std::string man = print_man_table();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_NE(man.find(std::string(".BR ") + key.name), std::string::npos) << key.name;
    EXPECT_GT(std::string(key.help).size(), 10u) << key.name;
  }
}

TEST(Config, KeysOfAnInnerSectionAreRead) {
  const Config config = good(R"(
    [store]
    kind = "usrbio"
    root = "/mnt/3fs/cache"
    [store.usrbio]
    client = "library"
    library = "/opt/3fs"
    chunk_bytes = "4MiB"
    ring_entries = 64)");
  EXPECT_EQ(config.store_kind, StoreKind::kUsrbio);
  EXPECT_EQ(config.usrbio_client, UsrbioClient::kLibrary);
  EXPECT_EQ(config.usrbio_library, "/opt/3fs");
  EXPECT_EQ(config.usrbio_chunk_bytes, 4ull << 20);
  EXPECT_EQ(config.usrbio_ring_entries, 64u);
  refused("[store.usrbio]\nclint = \"auto\"", {"store.usrbio.clint", "store.usrbio.client"});
  refused("[store.usrbi]\nclient = \"auto\"", {"store.usrbi"});
}

TEST(Config, WhatUsrbioCantDoIsRefused) {
  refused("[store]\nkind = \"usrbio\"", {"needs store.root"});
  const std::string usrbio = "[store]\nkind = \"usrbio\"\nroot = \"/m\"\n";
  refused(usrbio + "[host_pool]\ndirectory = \"/mnt/huge\"",
          {"host_pool.directory", "/mnt/huge", "/dev/shm"});
  refused(usrbio + "[store.usrbio]\nchunk_bytes = 5000", {"store.usrbio.chunk_bytes", "8KiB"});
  refused(usrbio + "[store.usrbio]\nring_entries = 0", {"store.usrbio.ring_entries"});
  refused(usrbio + "[store.usrbio]\nclient = \"builtin\"\nlibrary = \"/x\"",
          {"store.usrbio.library", "remove one of the two"});
  refused(usrbio + "[store.usrbio]\nlibrary = \"x.so\"", {"store.usrbio.library", "absolute"});
}

TEST(Config, AnUnknownKeyIsRefusedWithTheNearestKnownOne) {
  refused("[host_pool]\nbites = 4096", {"test.toml:2", "host_pool.bites", "host_pool.bytes"});
  refused("[limits]\nlease_max_ms = 1", {"limits.lease_max_ms", "limits.lease_ms_max"});
}

TEST(Config, AnUnknownSectionIsRefusedWithTheNearestKnownOne) {
  refused("[hostpool]\nbytes = 1", {"[hostpool]", "[host_pool]"});
  refused("[[alow]]\nuid = 1", {"[alow]", "[allow]"});
}

TEST(Config, AKeyBeforeTheFirstSectionIsRefusedWithTheSectionThatItBelongsTo) {
  refused("bytes = \"8GiB\"", {"test.toml:1", "bytes", "no section", "bytes under [host_pool]"});
  refused("lissten = \"\"\n[daemon]\n", {"lissten", "listen under [metrics]"});
  refused("threads = 4", {"threads under [copy] or threads under [hash]"});
}

TEST(Config, AWrongTypeNamesKeyValueAndRemedy) {
  refused("[daemon]\nsocket = 5", {"daemon.socket", "5", "text in quotes"});
  refused("[copy]\nthreads = \"four\"", {"copy.threads", "\"four\"", "whole number"});
  refused("[copy]\nthreads = [1]", {"copy.threads", "one value"});
  refused("[store]\nstall_ms = true", {"store.stall_ms", "true", "must be a number"});
  refused("[host_pool]\nbytes = 1.5", {"host_pool.bytes", "1.5", "8GiB"});
  refused("daemon = 3", {"daemon", "section"});
}

TEST(Config, AValueOutOfRangeNamesTheRange) {
  refused("[copy]\nthreads = 65", {"copy.threads", "65", "0 to 64"});
  refused("[copy]\nthreads = -1", {"copy.threads", "-1", "0 to 64"});
  refused("[limits]\nleases_percent = 91", {"limits.leases_percent", "0 to 90"});
  refused("[copy]\ninline_bytes = \"1MiB\"", {"copy.inline_bytes", "512KiB"});
  refused("[daemon]\ndrain_timeout_s = 1e9", {"daemon.drain_timeout_s", "0 to 3600"});
}

TEST(Config, AnUnknownUnitOfASizeIsRefusedWithTheKnownOnes) {
  refused("[host_pool]\nbytes = \"8GB\"", {"\"8GB\"", "GB", "GiB"});
  refused("[host_pool]\nbytes = \"lots\"", {"\"lots\"", "8GiB"});
  refused("[host_pool]\nbytes = \"99999999999999TiB\"", {"64 bits"});
}

TEST(Config, AFractionOfAUnitIsRefusedWithTheWholeNumber) {
  refused("[host_pool]\nbytes = \"1.5GiB\"",
          {"host_pool.bytes = \"1.5GiB\"", "whole number of a unit", "\"1536MiB\""});
  refused("[host_pool]\nbytes = \"0.5 TiB\"", {"\"512GiB\""});
  for (const char* size : {"1,5GiB", "1.5GB", "0.5B", "0.5KiB", "1.", "1.e400GiB"})
    refused("[host_pool]\nbytes = \"" + std::string(size) + "\"",
            {size, "whole number", "such as"});
}

TEST(Config, AnUnknownChoiceIsRefusedWithTheNearestOne) {
  refused("[store]\nadmission = \"secnd_use\"",
          {"store.admission", "\"secnd_use\"", "did you mean \"second_use\""});
}

TEST(Config, KeysThatContradictEachOtherAreRefused) {
  refused("[host_pool]\nchunk_bytes = \"100MiB\"", {"host_pool.chunk_bytes", "span_bytes"});
  refused("[host_pool]\nbytes = \"1536MiB\"", {"host_pool.bytes", "multiple", "chunk_bytes"});
  refused("[host_pool]\nspan_bytes = 65537", {"host_pool.span_bytes", "4KiB"});
  refused("[host_pool]\nname = \"Big Pool\"", {"host_pool.name", "Big Pool", "a-z"});
  refused("[store]\nkind = \"file\"", {"store.kind", "store.root"});
  refused("[store]\nroot = \"data\"", {"store.root", "absolute"});
  refused("[store]\nroot = \"/d\"\ncapacity_bytes = \"300MiB\"",
          {"store.capacity_bytes", "two segments"});
  refused("[daemon]\nruntime_dir = \"run\"", {"daemon.runtime_dir", "absolute"});
}

TEST(Config, ASizeThatIsNoMultipleIsRefusedInTheUnitsOfAFileWithTheNearestOnes) {
  refused("[host_pool]\nbytes = \"100MiB\"\nchunk_bytes = \"64MiB\"",
          {"host_pool.bytes = \"100MiB\" must be a multiple of host_pool.chunk_bytes = \"64MiB\"",
           "write \"64MiB\" or \"128MiB\", or \"auto\""});
  refused("[host_pool]\nchunk_bytes = \"100MiB\"",
          {"\"100MiB\" must be a multiple of host_pool.span_bytes = \"16MiB\"",
           "write \"96MiB\" or \"112MiB\""});
  refused("[host_pool]\nspan_bytes = 65537", {"write \"64KiB\" or \"68KiB\""});
  refused("[store]\nroot = \"/d\"\ncapacity_bytes = \"300MiB\"",
          {"\"300MiB\"", "\"256MiB\"; write \"512MiB\" or more, or lower store.segment_bytes"});
}

// A pool that is smaller than the default chunk is the first thing that many write.
TEST(Config, APoolBelowOneChunkIsRefusedWithTheChunkThatFits) {
  const std::string small = "[host_pool]\nbytes = \"256MiB\"\n";
  refused(small, {"host_pool.chunk_bytes = \"1GiB\"; write \"1GiB\", or \"auto\"",
                  "or set host_pool.chunk_bytes = \"256MiB\""});
  EXPECT_EQ(good(small + "chunk_bytes = \"256MiB\"").pool_bytes, 256ull << 20);
}

TEST(Config, SmallerChunksAreSuggestedOnlyWhereSpansFitThem) {
  refused("[host_pool]\nbytes = \"1536MiB\"", {"or set host_pool.chunk_bytes = \"512MiB\""});
  refused("[host_pool]\nbytes = \"100MiB\"",
          {"or with smaller host_pool.chunk_bytes another multiple of host_pool.span_bytes = "
           "\"16MiB\""});
}

TEST(Config, ASocketPathThatIsTooLongIsRefused) {
  refused("[daemon]\nsocket = \"/" + std::string(120, 'x') + "\"", {"daemon.socket", "107"});
}

TEST(Config, ATextThatIsNoTomlNamesTheLine) { refused("[daemon]\nsocket = \n", {"test.toml:2"}); }

TEST(Config, AFileThatCannotBeReadIsNamed) {
  const TempDir dir;
  const Result<Config> config = load_config(dir / "none.toml");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().text().find(dir / "none.toml"), std::string::npos);
}

TEST(ConfigAllow, AnEntryIsReadWithEachOfItsKeys) {
  const Config config = good(R"(
    [[allow]]
    uid = 1000
    gid = [5, 6]
    user = "root"
    permissions = ["read", "admin"]
    tenant_salts = ["blue"]
    pool_bytes_max = "1GiB"
    store_bytes_max = 5
    bytes_in_flight_max = "1MiB"
    region_bytes_max = 7
    sessions_max = 3
    [[allow]]
    gid = 9)");
  ASSERT_EQ(config.allow.size(), 2u);
  const AllowEntry& first = config.allow[0];
  EXPECT_EQ(first.gids, (std::vector<uint32_t>{5, 6}));
  EXPECT_EQ(std::count(first.uids.begin(), first.uids.end(), 1000u), 1);
  EXPECT_EQ(std::count(first.uids.begin(), first.uids.end(), 0u), 1);
  EXPECT_TRUE(first.permissions.read && first.permissions.admin);
  EXPECT_FALSE(first.permissions.put || first.permissions.clear);
  EXPECT_EQ(first.permissions.tenant_salts, std::vector<std::string>{"blue"});
  EXPECT_EQ(first.permissions.pool_bytes_max, 1ull << 30);
  EXPECT_EQ(first.permissions.store_bytes_max, 5u);
  EXPECT_EQ(first.permissions.bytes_in_flight_max, 1ull << 20);
  EXPECT_EQ(first.permissions.region_bytes_max, 7u);
  EXPECT_EQ(first.permissions.sessions_max, 3u);
  EXPECT_EQ(first.permissions.entry, 1u);
  EXPECT_EQ(config.allow[1].permissions.entry, 2u);
  EXPECT_TRUE(config.allow[1].permissions.read && config.allow[1].permissions.put);
  EXPECT_FALSE(config.allow[1].permissions.clear || config.allow[1].permissions.admin);
  EXPECT_EQ(config.allow[1].permissions.tenant_salts, std::vector<std::string>{"*"});
}

TEST(ConfigAllow, EachMistakeIsRefused) {
  refused("[[allow]]\npermissions = [\"read\"]", {"matches nobody", "uid"});
  refused("[[allow]]\nuid = -4", {"allow.uid", "-4"});
  refused("[[allow]]\nuid = \"bob\"", {"allow.uid", "\"bob\"", "user"});
  refused("[[allow]]\nuser = \"no such user here\"", {"allow.user", "not known"});
  refused("[[allow]]\ngroup = \"no such group here\"", {"allow.group", "not known"});
  refused("[[allow]]\nuid = 1\npermissions = [\"rread\"]",
          {"allow.permissions", "\"rread\"", "\"read\""});
  refused("[[allow]]\nuid = 1\npermissions = [\"write\"]", {"\"write\"", "did you mean \"put\""});
  refused("[[allow]]\nuid = 1\ntenant_salts = [5]", {"allow.tenant_salts", "5"});
  refused("[[allow]]\nuid = 1\npool_bytes_max = -1", {"allow.pool_bytes_max", "-1"});
  refused("[[allow]]\nuid = 1\nsessions_max = 70000", {"allow.sessions_max", "65536"});
  refused("[[allow]]\nuidd = 1", {"allow.uidd", "allow.uid?"});
  refused("[[allow]]\nuid = {a = 1}", {"allow.uid", "numbers or texts"});
  refused("[allow]\nuid = 1", {"[[allow]]"});
}

TEST(ConfigBytes, SizesAreReadWithAndWithoutUnit) {
  EXPECT_EQ(*parse_bytes("4096"), 4096u);
  EXPECT_EQ(*parse_bytes("3B"), 3u);
  EXPECT_EQ(*parse_bytes("512KiB"), 512u << 10);
  EXPECT_EQ(*parse_bytes("2 TiB"), 2ull << 40);
  EXPECT_FALSE(parse_bytes("").ok());
  EXPECT_FALSE(parse_bytes("-1").ok());
  EXPECT_FALSE(parse_bytes("1.5GiB").ok());
}

}  // namespace
}  // namespace kvsidecar
