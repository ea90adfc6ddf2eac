// SPDX-License-Identifier: Apache-2.0
// Goal: systemd hears what the daemon says, and a daemon without systemd says nothing. Method: a
// datagram socket in the place of systemd's.
#include "sidecar/shell/sd_notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "ipc/os.h"
#include "tests/unit/shell/temp_dir.h"

namespace kvsidecar {
namespace {

TEST(SdNotify, TheStateArrivesAtTheSocketThatTheEnvironmentNames) {
  const TempDir dir;
  const std::string path = dir / "notify";
  const UniqueFd systemd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  ASSERT_EQ(::bind(systemd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  sd_notify("READY=1");
  ::unsetenv("NOTIFY_SOCKET");
  char text[64] = {};
  EXPECT_EQ(::recv(systemd.get(), text, sizeof text, 0), 7);
  EXPECT_STREQ(text, "READY=1");
  sd_notify("READY=1");
  EXPECT_EQ(::recv(systemd.get(), text, sizeof text, 0), -1);
}

TEST(SdNotify, TheWatchdogIsFedTwiceAsOftenAsItIsAsked) {
  ::setenv("WATCHDOG_USEC", "2000000", 1);
  EXPECT_EQ(sd_watchdog_interval_ns(), 1'000'000'000u);
  ::unsetenv("WATCHDOG_USEC");
  EXPECT_EQ(sd_watchdog_interval_ns(), 0u);
}

}  // namespace
}  // namespace kvsidecar
