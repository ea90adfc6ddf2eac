// SPDX-License-Identifier: Apache-2.0
// HELLO and WELCOME: fixed structs over a SOCK_SEQPACKET socket, so that they parse before versions
// agree. Then the socket stays open and carries only region fds (FdMessage) and hang-up.
//
//   client -> HELLO           daemon -> WELCOME + 6 fds, or REFUSED with a sentence
//   client -> READY           (it has mapped everything and checked seals and sizes)
//   client -> FdMessage + 1 fd, any time later; the fd waits under its token for register-region
#pragma once
#include "ipc/layout.h"

namespace kvsidecar {

inline constexpr uint64_t kHelloMagic = 0x314f4c4c4548564bull;    // "KVHELLO1"
inline constexpr uint64_t kWelcomeMagic = 0x31454d4f434c564bull;  // "KVLCOME1"
inline constexpr uint64_t kReadyMagic = 0x3159444145525645ull;
inline constexpr uint64_t kFdMagic = 0x3144465f5f5f564bull;

struct Hello {
  uint64_t magic;
  uint32_t bytes;  // sizeof(Hello) of the sender
  uint32_t protocol_major, protocol_minor;
  uint32_t reserved;     // 0
  uint64_t features;     // 0
  uint8_t instance[16];  // random per client process
  char name[48];         // for logs, NUL-padded
};
static_assert(sizeof(Hello) == 96);

struct Welcome {
  uint64_t magic;
  uint32_t bytes;
  uint32_t status;  // Code; kOk or the reason of the refusal
  uint32_t protocol_major, protocol_minor;
  uint64_t features;
  uint64_t epoch, session;
  Geometry geometry;
  uint8_t node[16];  // the node's uuid
  char text[256];    // refusal: one sentence, NUL-terminated
};
static_assert(sizeof(Welcome) == 344);

// Order of the fds that come with a WELCOME of status kOk.
enum WelcomeFd {
  kFdSubmission,
  kFdCompletion,
  kFdCells,
  kFdKick,
  kFdNotify,
  kFdDaemonPid,
  kWelcomeFds
};

struct Ready {
  uint64_t magic;
};
struct FdMessage {
  uint64_t magic;
  uint64_t token;
};
inline constexpr uint32_t kPendingFdsMax = 16;  // region fds that wait for their register-region

}  // namespace kvsidecar
