// SPDX-License-Identifier: Apache-2.0
#include "ipc/status.h"

namespace kvsidecar {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kOkPart:
      return "OK_PART";
    case Code::kExists:
      return "EXISTS";
    case Code::kMiss:
      return "MISS";
    case Code::kNotStored:
      return "NOT_STORED";
    case Code::kTimeout:
      return "TIMEOUT";
    case Code::kRevoked:
      return "REVOKED";
    case Code::kAbandoned:
      return "ABANDONED";
    case Code::kBusy:
      return "BUSY";
    case Code::kIoError:
      return "IO_ERROR";
    case Code::kCorrupt:
      return "CORRUPT";
    case Code::kInvalid:
      return "INVALID";
    case Code::kUnknownHandle:
      return "UNKNOWN_HANDLE";
    case Code::kStaleHandle:
      return "STALE_HANDLE";
    case Code::kStaleNamespace:
      return "STALE_NAMESPACE";
    case Code::kStaleMapping:
      return "STALE_MAPPING";
    case Code::kExpired:
      return "EXPIRED";
    case Code::kDenied:
      return "DENIED";
    case Code::kOverQuota:
      return "OVER_QUOTA";
    case Code::kMemoryFault:
      return "MEMORY_FAULT";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kUnsupportedVersion:
      return "UNSUPPORTED_VERSION";
    case Code::kDraining:
      return "DRAINING";
    case Code::kInternal:
      return "INTERNAL";
  }
  return "?";
}

}  // namespace kvsidecar
