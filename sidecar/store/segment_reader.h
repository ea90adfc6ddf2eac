// SPDX-License-Identifier: Apache-2.0
// Reads pages: large ones straight into the caller's memory with the trailer beside them in a
// bounce buffer, packed ones through a bounce buffer. One owner (the store worker).
#pragma once
#include <functional>

#include "sidecar/store/segment_file.h"
#include "sidecar/store/store.h"

namespace kvsidecar {

// kOk with the record; kMiss: nothing lies there; kIoError: the file can't be read or ends early;
// kCorrupt: the record isn't whole or isn't of such a page.
using ReadDone = std::function<void(Code status, std::unique_ptr<PageRecord> record)>;
void read_page(StoreParts& parts, StoreCommand&& command, ReadDone done);

}  // namespace kvsidecar
