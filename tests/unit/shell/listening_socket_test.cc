// SPDX-License-Identifier: Apache-2.0
// Goal: the socket's path is taken only from a dead daemon, and is never open to strangers. Method:
// real sockets in a directory of the test's own.
#include "sidecar/shell/listening_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

TEST(ListeningSocket, IsForUserAndGroupOnlyAndGoesWithItsOwner) {
  const TempDir dir;
  {
    const Result<ListeningSocket> opened = ListeningSocket::open(dir / "s.sock", std::nullopt);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    struct stat facts {};
    ASSERT_EQ(::stat((dir / "s.sock").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777u, 0660u);
  }
  EXPECT_FALSE(std::filesystem::exists(dir / "s.sock"));
}

TEST(ListeningSocket, AStaleSocketIsReplacedButALiveOneIsNot) {
  const TempDir dir;
  const std::string path = dir / "s.sock";
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  const Result<ListeningSocket> first = ListeningSocket::open(path, std::nullopt);
  ASSERT_TRUE(first.ok()) << first.status().text();
  const Result<ListeningSocket> second = ListeningSocket::open(path, std::nullopt);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kBusy);
}

TEST(ListeningSocket, IsReachableUntilSomebodyTakesItsPathAway) {
  const TempDir dir;
  const std::string path = dir / "s.sock";
  {
    const Result<ListeningSocket> socket = ListeningSocket::open(path, std::nullopt);
    ASSERT_TRUE(socket.ok()) << socket.status().text();
    EXPECT_TRUE(socket->reachable());
    ::unlink(path.c_str());
    EXPECT_FALSE(socket->reachable());
    const Result<ListeningSocket> another = ListeningSocket::open(path, std::nullopt);
    ASSERT_TRUE(another.ok()) << another.status().text();
    EXPECT_FALSE(socket->reachable());
    EXPECT_TRUE(another->reachable());
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(ListeningSocket, AFileInItsPlaceIsKept) {
  const TempDir dir;
  std::ofstream(dir / "s.sock") << "precious";
  const Result<ListeningSocket> opened = ListeningSocket::open(dir / "s.sock", std::nullopt);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().text().find("daemon.socket"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(dir / "s.sock"));
}

TEST(ListeningSocket, APathThatIsTooLongIsRefused) {
  const Result<ListeningSocket> opened =
      ListeningSocket::open("/tmp/" + std::string(120, 'x'), std::nullopt);
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().text().find("107"), std::string::npos);
}

}  // namespace
}  // namespace kvsidecar
