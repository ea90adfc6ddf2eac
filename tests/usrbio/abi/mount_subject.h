// SPDX-License-Identifier: Apache-2.0
// Libraries that speak the protocol, as subjects of the C interface's tests: on a mini3fs of their
// own, or on a mount that is there.
#pragma once
#include <memory>
#include <string>

#include "tests/usrbio/abi/subject.h"

namespace kvsidecar::abi {

// Why no mini3fs can run on this machine, a sentence; empty: it can.
std::string mini3fs_missing();
// Null: what went wrong is in `wrong`, a sentence.
std::unique_ptr<Subject> make_on_mini3fs(const Traits& traits, const std::string& library,
                                         std::string& wrong);
std::unique_ptr<Subject> make_on_mount(const Traits& traits, const std::string& library,
                                       const std::string& mount, std::string& wrong);

}  // namespace kvsidecar::abi
