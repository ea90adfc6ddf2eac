// SPDX-License-Identifier: Apache-2.0
// Runs a job: checks each I/O, moves bytes between files and buffers, sets the results. An I/O that
// fails fails alone, but reads of one job whose target ranges overlap fail all of its reads. Any
// thread.
#pragma once
#include "tests/usrbio/core/buffer_table.h"
#include "tests/usrbio/core/counts.h"
#include "tests/usrbio/core/data_file.h"
#include "tests/usrbio/core/ring.h"

namespace kvsidecar::fake3fs {

class JobRunner {
 public:
  JobRunner(BufferTable& buffers, FileTable& files, Faults& faults, Counts& counts)
      : buffers_(buffers), files_(files), faults_(faults), counts_(counts) {}
  void run(Job& job);

 private:
  struct Prepared;
  Prepared prepare(const JobIo& io);
  void read(Job& job, std::vector<Prepared>& prepared);
  void write(JobIo& io, Prepared& prepared);

  BufferTable& buffers_;
  FileTable& files_;
  Faults& faults_;
  Counts& counts_;
};

}  // namespace kvsidecar::fake3fs
