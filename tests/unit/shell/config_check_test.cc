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
#include "sidecar/store/node_folder.h"
#include "tests/support/plain_user.h"
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

TEST_F(ConfigCheckTest, ARootOffEvery3fsIsRefusedForUsrbioByName) {
  config_.store_kind = StoreKind::kUsrbio;
  config_.pool_directory = "/dev/shm";
  refused("store.root", "lies on no 3FS mount");
  refused("store.root", "set store.kind = \"file\"");
}

TEST_F(ConfigCheckTest, AUsrbioLibraryThatIsNotThereIsRefused) {
  config_.usrbio_library = dir_ / "libhf3fs_api_shared.so";
  refused("store.usrbio.library", "can't be looked at");
}

TEST_F(ConfigCheckTest, ADirectoryWhoseParentIsNotThereIsRefusedWithTheRemedy) {
  const std::pair<const char*, std::string Config::*> keys[] = {
      {"daemon.runtime_dir", &Config::runtime_dir}, {"daemon.state_dir", &Config::state_dir}};
  for (const auto& [key, path] : keys) {
    const std::string before = config_.*path;
    config_.*path = dir_ / "none/below/";
    refused(key, "make the parent: mkdir -p " + (dir_ / "none"));
    config_.*path = before;
  }
}

// Of a directory that only its owner may write, for somebody else.
class UnwritableRootTest : public ConfigCheckTest {
 protected:
  UnwritableRootTest() {
    config_.store_root = dir_ / "store";
    std::filesystem::create_directory(config_.store_root);
    std::filesystem::create_directory(config_.state_dir);
    ::chmod(dir_.path().c_str(), 0755);
    ::chmod(config_.store_root.c_str(), 0555);
  }
  ~UnwritableRootTest() override { ::chmod(config_.store_root.c_str(), 0755); }
};

TEST_F(UnwritableRootTest, IsRefusedWithUserAndRemedyAndIsLeftAsItWas) {
  const PlainUser somebody;
  refused("store.root", "can't be written by " + own_user());
  refused("store.root", "; chown " + std::to_string(::geteuid()) + " " + config_.store_root);
  EXPECT_TRUE(std::filesystem::is_empty(config_.store_root));
  EXPECT_TRUE(std::filesystem::is_empty(config_.state_dir));
}

TEST_F(UnwritableRootTest, IsGoodEnoughForANodeThatHasItsFolderThere) {
  ::chmod(config_.store_root.c_str(), 0755);
  ::chmod(config_.state_dir.c_str(), 0755);
  std::string folder;
  {
    const Result<NodeFolder> claimed = NodeFolder::claim(config_.store_root, config_.state_dir, 0);
    ASSERT_TRUE(claimed.ok()) << claimed.status().text();
    folder = claimed->path();
  }
  ::chmod((config_.state_dir + "/node").c_str(), 0644);
  ::chmod(folder.c_str(), 0777);
  ::chmod(config_.store_root.c_str(), 0555);
  const PlainUser somebody;
  EXPECT_EQ(error(), "");
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
