// SPDX-License-Identifier: Apache-2.0
// systemd's notification socket: READY=1, STATUS=…, STOPPING=1, WATCHDOG=1. Does nothing without
// $NOTIFY_SOCKET. Any thread; never blocks.
#pragma once
#include <cstdint>
#include <string>

namespace kvsidecar {

void sd_notify(const std::string& state);
// How often systemd wants WATCHDOG=1, halved for safety; 0 = not at all.
uint64_t sd_watchdog_interval_ns();

}  // namespace kvsidecar
