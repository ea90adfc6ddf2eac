// SPDX-License-Identifier: Apache-2.0
// What the suite of usrbio::Client runs on: a way to open a client, and the server that it speaks
// to, in the test's hand.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/store/usrbio/client.h"

namespace kvsidecar::usrbio {

class ClientSubject {
 public:
  virtual ~ClientSubject() = default;
  virtual std::string name() const = 0;  // describe() of its clients begins so
  virtual Result<std::unique_ptr<Client>> open(const std::string& path) = 0;
  virtual const std::string& mount() const = 0;
  virtual uint64_t chunk_bytes() const = 0;

  // Faults and counts of tests/usrbio/core.
  virtual void fault(const std::string& name, const std::string& value) = 0;
  virtual void clear_faults() = 0;  // what stalled goes on
  virtual int64_t count(const std::string& name) = 0;
  virtual void kill() = 0;
  virtual void restart() = 0;
  // The server is another process, so that other processes can have clients too: how such a process
  // is started; empty: it is in this one.
  virtual std::vector<std::string> child_arguments() const = 0;

  // Runs the scenario again and again with each call that can fail failing in turn, until none is
  // left. after(what failed) is called after each run.
  virtual void fail_each_call(const std::function<void()>& scenario,
                              const std::function<void(const std::string&)>& after) = 0;
};

ClientSubject& subject();  // the one of this program

}  // namespace kvsidecar::usrbio
