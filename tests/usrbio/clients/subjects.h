// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tests/usrbio/clients/subject.h"

namespace kvsidecar::usrbio {

// The server is mini3fs; library empty: the builtin client. Null: `missing` says why.
std::unique_ptr<ClientSubject> make_mini3fs_subject(const std::string& library,
                                                    std::string& missing);
// The emulator's library, whose server is in this process.
std::unique_ptr<ClientSubject> make_emulator_subject(const std::string& library,
                                                     std::string& missing);

}  // namespace kvsidecar::usrbio
