// SPDX-License-Identifier: Apache-2.0
// What the tests of the C interface run on: a library and a mount.
#pragma once
#include <memory>
#include <string>

#include "tests/usrbio/abi/library.h"
#include "tests/usrbio/abi/traits.h"

namespace kvsidecar::abi {

class Subject {
 public:
  virtual ~Subject() = default;
  virtual const Traits& traits() const = 0;
  virtual const Library& library() const = 0;
  virtual const std::string& mount() const = 0;
  // Of the daemon: "NAME VALUE" by tests/usrbio/core/faults.h, several separated by ';', replace
  // those before; "" = none. False: can't be set here.
  virtual bool set_faults(const std::string& text) = 0;
  virtual void release_stalled() = 0;
  // Of the library's calls that can fail, the nth from here fails with that errno; 0: none. False:
  // that can't be done here.
  virtual bool fail_call(uint64_t /*nth*/, int /*error*/) { return false; }
  // Traits::restarts only.
  virtual void kill_daemon() = 0;
  virtual void restart_daemon() = 0;
  // Of the daemon, by the names of tests/usrbio/core/counts.h. -1: not known here.
  virtual int64_t count(const std::string& name) = 0;
};

}  // namespace kvsidecar::abi
