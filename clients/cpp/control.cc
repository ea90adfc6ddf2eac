// SPDX-License-Identifier: Apache-2.0
// Registrations: one at a time (the keeper's replay takes its turn too), each acknowledged by the
// daemon. What can't be registered now is kept and made by the keeper later.
#include <algorithm>
#include <cstring>

#include "clients/cpp/client.h"

namespace kvsidecar::clientlib {
namespace {

constexpr uint64_t kLifeCheckNs = 50'000'000;

Status unknown(const char* what, uint64_t id) {
  return {Code::kUnknownHandle,
          std::string(what) + " " + std::to_string(id) + " is not known to this client"};
}

Status unavailable(const std::string& text) { return {Code::kUnavailable, text}; }

bool comes_later(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kTimeout;
}

// Sessions that share with nobody are a namespace of their own, another one after each reconnect.
bool alone(const NamespaceObject& space) { return space.detach && space.group.empty(); }

}  // namespace

Answer Client::ask(Lock& lock, RecordType type, Encoded request, uint64_t until_ns) {
  const std::shared_ptr<Link> link = core_.current;
  if (!link || link->lost) return {unavailable("no daemon answers at the moment")};
  auto owned = std::make_unique<Operation>();
  owned->type = type;
  owned->internal = true;
  owned->link = link;
  owned->deadline_ns = until_ns;
  owned->ready = std::move(request);
  uint64_t now_ns = monotonic_ns();
  const uint64_t id = core_.begin(std::move(owned), now_ns).id;
  // The keeper may be the one that waits here: then nobody else watches the daemon's life.
  while (!await(lock, std::span(&id, 1), std::min(until_ns, now_ns + kLifeCheckNs), now_ns)) {
    now_ns = monotonic_ns();
    if (stop_) core_.cancel(*core_.find(id), now_ns, nullptr);
    check_life(link, false);
  }
  Operation& op = *core_.find(id);
  Answer answer;
  if (op.status != Code::kOk) answer.status = Status(op.status, op.text);
  answer.handle = op.handle;
  answer.value = op.value;
  core_.erase(op, monotonic_ns());
  return answer;
}

template <typename Object>
Status Client::made(std::map<uint64_t, Object>& objects, uint64_t& id, Status status) {
  if (status.ok()) return status;
  if (comes_later(status)) {
    replay_again_ = true;
    wake_keeper();
    return unavailable(status.text() + "; it is registered when a daemon answers");
  }
  objects.erase(id);
  id = 0;
  return status;
}
template Status Client::made(std::map<uint64_t, RegionObject>&, uint64_t&, Status);
template Status Client::made(std::map<uint64_t, LayoutObject>&, uint64_t&, Status);
template Status Client::made(std::map<uint64_t, NamespaceObject>&, uint64_t&, Status);

Status Client::make_namespace(Lock& lock, NamespaceObject& space, uint64_t until_ns) {
  AttachRequest request;
  request.identity = space.identity;
  request.group = space.group;
  request.group_size = space.group_size;
  request.rank = space.rank;
  request.coordinate = space.coordinate;
  request.description_bytes_max = space.description_bytes_max;
  request.detach = space.detach;
  Encoded encoded;
  encode(request, encoded);
  const Answer answer = ask(lock, RecordType::kAttach, std::move(encoded), until_ns);
  if (!answer.status.ok()) return answer.status;
  space.handle = answer.handle;
  // An engine with the weights of before must not put into a generation that somebody else began.
  space.stale = space.attached_once && !alone(space) && answer.value != space.generation;
  if (space.stale) {
    log(KVS_LOG_WARNING, "namespace " + to_hex(space.id) +
                             " was cleared while this client was away: attach anew or clear it");
  } else {
    space.generation = answer.value;
  }
  space.attached_once = true;
  return {};
}

Status Client::attach(NamespaceObject object, uint64_t timeout_ns, uint64_t& id) {
  const uint64_t until_ns = deadline(timeout_ns);
  Lock lock(mutex_);
  const bool turn = take_turn(lock, until_ns);
  id = ++core_.objects.last_id;
  NamespaceObject& space = core_.objects.namespaces.emplace(id, std::move(object)).first->second;
  Status status = unavailable("the client is still registering after a reconnect");
  if (turn) status = make_namespace(lock, space, until_ns);
  if (turn) end_turn();
  return made(core_.objects.namespaces, id, status);
}

Status Client::detach(uint64_t id) {
  Lock lock(mutex_);
  if (core_.objects.namespaces.erase(id) == 0) return unknown("namespace", id);
  return {};
}

Status Client::namespace_facts(uint64_t id, uint8_t out[16], uint64_t& generation) {
  Lock lock(mutex_);
  const auto found = core_.objects.namespaces.find(id);
  if (found == core_.objects.namespaces.end()) return unknown("namespace", id);
  std::memcpy(out, &found->second.id, 16);
  generation = found->second.generation;
  return {};
}

Status Client::make_region(Lock& lock, RegionObject& region, uint64_t until_ns) {
  if (region.staged) {
    region.handle = UINT64_MAX;  // known to the library only
    return {};
  }
  if (!core_.current || core_.current->lost) return unavailable("no daemon answers at the moment");
  std::array<std::byte, 16> random;
  random_bytes(random);
  RegisterRegionRequest request{};
  std::memcpy(&request.token, random.data(), 8);
  std::memcpy(&request.nonce, random.data() + 8, 8);
  request.bytes = region.registered_bytes;
  request.offset = region.offset;
  request.echo_offset = region.echo_offset;
  auto& word = *reinterpret_cast<std::atomic<uint64_t>*>(region.echo);
  word.store(request.nonce, std::memory_order_seq_cst);
  Status sent =
      send_region_fd(core_.current->connection.socket.get(), request.token, region.fd.get());
  if (!sent.ok()) return unavailable(sent.text());
  Encoded encoded;
  encode(request, encoded);
  const Answer answer = ask(lock, RecordType::kRegisterRegion, encoded, until_ns);
  if (!answer.status.ok()) return answer.status;
  if (word.load(std::memory_order_seq_cst) != answer.value || answer.value == request.nonce) {
    (void)drop(lock, answer.handle, until_ns);
    return {Code::kStaleMapping,
            "region: the daemon's echo did not arrive in this memory; is base "
            "a shared mapping of fd at offset?"};
  }
  region.handle = answer.handle;
  return {};
}

Status Client::make_layout(Lock& lock, LayoutObject& layout, uint64_t until_ns) {
  if (layout.staged) {
    layout.handle = UINT64_MAX;
    return {};
  }
  std::vector<LayoutRun> runs = layout.runs;
  for (LayoutRun& run : runs) {
    const RegionObject& region = core_.objects.regions.at(run.region);
    if (!region.refused.ok()) return region.refused;
    if (region.handle == 0) return unavailable("a region of the layout isn't registered yet");
    run.region = region.handle;
  }
  Encoded encoded;
  encode(RegisterLayoutRequest{layout.blocks, runs}, encoded);
  const Answer answer = ask(lock, RecordType::kRegisterLayout, std::move(encoded), until_ns);
  if (answer.status.ok()) layout.handle = answer.handle;
  return answer.status;
}

Status Client::drop(Lock& lock, Handle handle, uint64_t until_ns) {
  if (handle == 0 || handle == UINT64_MAX) return {};
  Encoded encoded;
  encode(UnregisterRequest{handle}, encoded);
  Status status = ask(lock, RecordType::kUnregister, std::move(encoded), until_ns).status;
  // A daemon that doesn't know it any more has dropped it: it went with its region.
  if (status.code() == Code::kUnknownHandle || status.code() == Code::kStaleHandle) return {};
  return status;
}

Status Client::unregister_layout(uint64_t id, uint64_t timeout_ns) {
  const uint64_t until_ns = deadline(timeout_ns);
  Lock lock(mutex_);
  if (!take_turn(lock, until_ns))
    return {Code::kTimeout, "another registration has not ended in time; call again"};
  Status status = unknown("layout", id);
  const auto found = core_.objects.layouts.find(id);
  if (found != core_.objects.layouts.end()) {
    status = drop(lock, found->second.handle, until_ns);
    if (status.ok() || status.code() == Code::kUnavailable) core_.objects.layouts.erase(found);
  }
  end_turn();
  return status;
}

Status Client::create_fence(uint64_t& fence) {
  Lock lock(mutex_);
  Objects& objects = core_.objects;
  const uint32_t words =
      core_.current ? core_.current->memory.geometry.fences : kDefaultGeometry.fences;
  size_t word = 0;
  while (word < objects.fence_used.size() && objects.fence_used[word]) ++word;
  if (word >= words)
    return {Code::kBusy, "fences: all " + std::to_string(words) + " words of the session are used"};
  if (word == objects.fence_used.size()) {
    objects.fence_used.push_back(false);
    objects.fence_values.push_back(0);
  }
  objects.fence_used[word] = true;
  objects.fence_values[word] = 0;
  if (core_.current) core_.current->memory.fence(static_cast<uint32_t>(word))->store(0);
  fence = word + 1;
  return {};
}

Status Client::signal_fence(uint64_t fence, uint64_t value) {
  Lock lock(mutex_);
  Objects& objects = core_.objects;
  const uint32_t word = fence_word(fence);
  if (fence == 0 || word >= objects.fence_used.size() || !objects.fence_used[word])
    return unknown("fence", fence);
  if (value <= objects.fence_values[word]) return {};
  objects.fence_values[word] = value;
  if (!core_.current || core_.current->lost) return {};
  Link& link = *core_.current;
  if (std::atomic<uint64_t>* shared = link.memory.fence(word)) {
    shared->store(value, std::memory_order_seq_cst);
    if (link.memory.info().daemon_sleeps.load(std::memory_order_seq_cst) != 0)
      eventfd_signal(link.connection.share.kick.get());
  }
  core_.tick(monotonic_ns());  // staged puts that waited for it
  signal_changes();
  return {};
}

Status Client::destroy_fence(uint64_t fence) {
  Lock lock(mutex_);
  const uint32_t word = fence_word(fence);
  if (fence == 0 || word >= core_.objects.fence_used.size() || !core_.objects.fence_used[word])
    return unknown("fence", fence);
  core_.objects.fence_used[word] = false;
  return {};
}

}  // namespace kvsidecar::clientlib
