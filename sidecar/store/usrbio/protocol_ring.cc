// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/protocol_ring.h"

namespace kvsidecar::usrbio {

ProtocolRing::ProtocolRing(const MemoryId& id, std::unique_ptr<RingFile> file,
                           std::unique_ptr<Registration> registration,
                           std::unique_ptr<SubmitSemaphore> semaphore, uint32_t entries)
    : id_(id),
      file_(std::move(file)),
      registration_(std::move(registration)),
      semaphore_(std::move(semaphore)),
      end_(file_->data(), entries) {}

Result<std::unique_ptr<ProtocolRing>> ProtocolRing::make(std::shared_ptr<Mount> mount,
                                                         uint32_t entries, const RingTerms& terms,
                                                         int* error) {
  if (entries < 1 || entries > kRingEntriesMax)
    return invalid("a ring of " + std::to_string(entries) + " entries: 1 to " +
                   std::to_string(kRingEntriesMax) + " are possible");
  auto semaphore = SubmitSemaphore::open(*mount, terms.priority);
  if (!semaphore) return semaphore.status();
  auto file = RingFile::make(RingLayout(entries).bytes(), mount->faults());
  if (!file) return file.status();
  const MemoryId id = make_id();
  auto registration =
      Registration::make(std::move(mount), ring_key(id, terms), (*file)->path(), error);
  if (!registration) return registration.status();
  (*file)->unlink();  // the daemon has mapped it: from here on nothing of it outlives both
  return std::unique_ptr<ProtocolRing>(
      new ProtocolRing(id, file.take(), registration.take(), semaphore.take(), entries));
}

}  // namespace kvsidecar::usrbio
