// SPDX-License-Identifier: Apache-2.0
// The emulator's knobs, and the emulator as a subject of the C interface's tests.
#pragma once
#include <memory>
#include <string>

#include "tests/usrbio/abi/subject.h"
#include "tests/usrbio/emulator/knobs.h"

namespace kvsidecar::abi {

struct Knobs {
#define KVS_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  KVS_EMULATOR_KNOBS(KVS_MEMBER)
#undef KVS_MEMBER
};
// Of a loaded library; null: it isn't the emulator.
std::unique_ptr<Knobs> find_knobs(void* library);

// Its mount is a new folder, gone with the subject. Null: why not is in `wrong`, a sentence.
std::unique_ptr<Subject> make_emulator(const std::string& library, std::string& wrong);

}  // namespace kvsidecar::abi
