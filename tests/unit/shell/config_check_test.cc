// SPDX-License-Identifier: Apache-2.0
// Goal: a path that can't be what it is meant to be is refused by name before anything is built;
// the log tells which file was read and what it changed. Method: a directory of the test's own with
// one odd thing in it after the other.
#include "sidecar/shell/config_check.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "ipc/os.h"
#include "sidecar/shell/config_file.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

class ConfigCheckTest : public testing::Test {
 protected:
  ConfigCheckTest() {
    config_.runtime_dir = dir_ / "run";
    config_.state_dir = dir_ / "state";
    config_.pool_directory = dir_.path();
    config_.store_root = dir_.path();
    std::ofstream(dir_ / "file") << "x";
  }
  // The error of the check; empty when there is none.
  std::string error() const {
    const Result<Config> finished = finish_config(config_);
    EXPECT_TRUE(finished.ok()) << finished.status().text();
    return check_places(*finished).text();
  }
  void refused(const std::string& key, const std::string& why) const {
    EXPECT_NE(error().find(key + " = "), std::string::npos) << error();
    EXPECT_NE(error().find(why), std::string::npos) << error();
  }
  TempDir dir_;
  Config config_;
};

TEST_F(ConfigCheckTest, DirectoriesThatWillBeMadeAreRight) { EXPECT_EQ(error(), ""); }

TEST_F(ConfigCheckTest, AFileInThePlaceOfADirectoryIsRefusedByName) {
  const std::pair<const char*, std::string Config::*> keys[] = {
      {"daemon.runtime_dir", &Config::runtime_dir},
      {"daemon.state_dir", &Config::state_dir},
      {"host_pool.directory", &Config::pool_directory},
      {"store.root", &Config::store_root}};
  for (const auto& [key, path] : keys) {
    const std::string before = config_.*path;
    config_.*path = dir_ / "file";
    refused(key, "not a directory");
    config_.*path = dir_ / "file/below";
    refused(key, "Not a directory");
    config_.*path = before;
  }
}

// O6-01: a store's path that isn't there is refused at start, with what is needed.
TEST_F(ConfigCheckTest, AStoreThatIsNotThereIsRefused) {
  config_.store_root = dir_ / "not_mounted";
  refused("store.root", "does not exist");
}

TEST_F(ConfigCheckTest, ASocketThatIsADirectoryOrAFileIsRefused) {
  config_.socket = dir_.path();
  refused("daemon.socket", "is a directory; name a file in it");
  config_.socket = dir_ / "file";
  refused("daemon.socket", "something else than a socket");
}

TEST_F(ConfigCheckTest, ASocketThatIsThereIsLeftToTheStart) {
  config_.socket = dir_ / "socket";
  const UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, config_.socket.c_str());
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(error(), "");
}

// O6-02: what is no file is never taken for an empty one.
TEST_F(ConfigCheckTest, AConfigurationThatIsADirectoryIsRefusedByName) {
  const Result<Config> config = load_config(dir_.path());
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().text().find(dir_.path() + ": Is a directory"), std::string::npos)
      << config.status().text();
}

TEST_F(ConfigCheckTest, TheLogTellsTheFileAndWhatItChanged) {
  std::ofstream(dir_ / "some.toml") << "[copy]\nthreads = 3\n[host_pool]\nbytes = \"2GiB\"\n"
                                    << "[store]\nadmission = \"second_use\"\n";
  const Result<Config> config = load_config(dir_ / "some.toml");
  ASSERT_TRUE(config.ok()) << config.status().text();
  EXPECT_EQ(config->source, dir_ / "some.toml");
  const std::string changed = changed_keys(*config);
  for (const char* part :
       {" copy.threads=3", " host_pool.bytes=2GiB", " store.admission=second_use"})
    EXPECT_NE(changed.find(part), std::string::npos) << changed;
  EXPECT_EQ(changed.find("store.segment_bytes"), std::string::npos) << changed;
}

}  // namespace
}  // namespace kvsidecar
