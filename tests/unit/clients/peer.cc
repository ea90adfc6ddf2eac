// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/clients/peer.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <optional>

namespace kvsidecar::testing {

struct Peer::Session {
  UniqueFd socket;
  std::optional<SessionShare> share;
  std::unique_ptr<SubmissionConsumer> in;
  std::unique_ptr<CompletionProducer> out;
  std::map<uint64_t, UniqueFd> fds;
  std::map<uint64_t, MappedMemory> regions;
  std::map<uint64_t, Layout> layouts;
  std::map<uint64_t, std::string> namespaces;  // handle -> identity
  std::string lookup_keys;
  std::vector<uint32_t> lookup_cells;
  bool gone = false;
};

namespace {

std::string text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

Peer::Peer(std::string path, Knobs& knobs) : path_(std::move(path)), knobs_(knobs) {
  ::unlink(path_.c_str());
  listening_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
  KV_CHECK(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  KV_CHECK(::listen(listening_.get(), 8) == 0);
  stop_ = make_eventfd().take();
  pidfd_ = open_pidfd(::getpid()).take();
}

Peer::~Peer() {
  stop();
  ::unlink(path_.c_str());
}

void Peer::start() {
  eventfd_drain(stop_.get());
  thread_ = std::thread([this] { run(); });
}

void Peer::stop() {
  eventfd_signal(stop_.get());
  if (thread_.joinable()) thread_.join();
  sessions_.clear();
}

pid_t Peer::serve_in_child(const std::string& path, Knobs& knobs) {
  const pid_t parent = ::getpid();
  UniqueFd ready = make_eventfd().take();
  const pid_t child = ::fork();
  if (child != 0) {
    pollfd wait{ready.get(), POLLIN, 0};
    (void)::poll(&wait, 1, 10'000);
    return child < 0 ? 0 : child;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  Peer peer(path, knobs);
  eventfd_signal(ready.get());
  peer.run();
  ::_exit(0);
}

std::vector<Seen> Peer::seen() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return seen_;
}

size_t Peer::pages() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pages_.size();
}

void Peer::run() {
  for (;;) {
    bool worked = false;
    for (auto& session : sessions_)
      if (session->share && !knobs_.frozen) worked |= serve(*session);
    std::erase_if(sessions_, [](const auto& session) { return session->gone; });
    std::vector<pollfd> fds{{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    for (auto& session : sessions_) fds.push_back({session->socket.get(), POLLIN, 0});
    (void)::poll(fds.data(), fds.size(), worked ? 0 : 1);
    if (fds[0].revents != 0) return;
    for (size_t i = 2; i < fds.size(); ++i)
      if (fds[i].revents != 0) read_socket(*sessions_[i - 2]);
    if (fds[1].revents != 0) accept_one();
  }
}

void Peer::accept_one() {
  UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  auto session = std::make_unique<Session>();
  session->socket = std::move(socket);
  sessions_.push_back(std::move(session));
}

bool Peer::read_socket(Session& session) {
  std::byte buffer[512];
  std::vector<UniqueFd> fds;
  const Result<size_t> got = receive_message(session.socket.get(), buffer, fds, 1);
  if (!got.ok() || *got == 0) {
    session.gone = got.ok() || got.status().code() != Code::kBusy;
    return false;
  }
  if (!session.share) {
    Hello hello{};
    if (knobs_.busy_for > 0) {
      --knobs_.busy_for;
      send_refusal(session.socket.get(), {Code::kBusy, "connect again"});
      session.gone = true;
      return false;
    }
    if (knobs_.refuses || !check_hello(std::span(buffer).first(*got), hello).ok()) {
      send_refusal(session.socket.get(), {Code::kDenied, "uid is not listed"});
      session.gone = true;
      return false;
    }
    session.share = make_session_share(knobs_.geometry, epoch_, ++last_handle_).take();
    session.in = std::make_unique<SubmissionConsumer>(session.share->memory());
    session.out = std::make_unique<CompletionProducer>(session.share->memory());
    KV_CHECK(
        send_welcome(session.socket.get(), *session.share, epoch_, last_handle_, {}, pidfd_.get())
            .ok());
    return true;
  }
  FdMessage message{};
  if (*got != sizeof message || fds.size() != 1) return true;
  std::memcpy(&message, buffer, sizeof message);
  session.fds[message.token] = std::move(fds[0]);
  return true;
}

bool Peer::serve(Session& session) {
  alignas(16) static std::byte payload[kRequestBytesMax];
  bool any = false;
  RecordHead head{};
  uint32_t length = 0;
  while (!knobs_.frozen) {
    const Result<bool> credit = session.out->reserve(1);
    if (!credit.ok() || !*credit) break;
    const Result<int> popped = session.in->pop(head, payload, length);
    if (!popped.ok() || *popped == 0) {
      session.out->unreserve(1);
      session.gone = !popped.ok();
      break;
    }
    take(session, head, Bytes(payload, length));
    session.in->publish_consumed();
    any = true;
  }
  const uint32_t sleepers = session.out->publish();
  if ((sleepers & 1) != 0) futex_wake(session.share->memory().info().doorbell);
  if ((sleepers & 2) != 0) ring_bell(session.share->notify.get());
  return any;
}

void Peer::answer(Session& session, const RecordHead& head, Code code, uint64_t handle,
                  uint64_t value, Bytes payload) {
  CompletionHead out{};
  out.request = head.request;
  out.status = static_cast<uint8_t>(code);
  out.type = static_cast<uint8_t>(head.type);
  out.cells = 1;
  out.handle = handle;
  out.value = value;
  session.out->push(out, payload);
}

void Peer::take(Session& session, const RecordHead& head, Bytes record) {
  const auto type = static_cast<RecordType>(head.type);
  uint32_t items = 0;
  const auto ok = [&](uint64_t handle = 0, uint64_t value = 0) {
    answer(session, head, Code::kOk, handle, value, {});
  };
  switch (type) {
    case RecordType::kAttach: {
      const uint64_t handle = ++last_handle_;
      session.namespaces[handle] = text_of(decode_attach(record)->identity);
      ok(handle, knobs_.generation);
      break;
    }
    case RecordType::kRegisterRegion:
      register_region(session, head, *decode_register_region(record));
      break;
    case RecordType::kRegisterLayout: {
      const auto request = decode_register_layout(record);
      const uint64_t handle = ++last_handle_;
      session.layouts[handle] = {request->blocks, {request->runs.begin(), request->runs.end()}};
      ok(handle);
      break;
    }
    case RecordType::kUnregister: {
      const Handle handle = decode_unregister(record)->handle;
      session.regions.erase(handle);
      session.layouts.erase(handle);
      ok();
      break;
    }
    case RecordType::kLookup: {
      const auto request = decode_lookup(record);
      items = request->keys.count();
      lookup(session, head, *request);
      break;
    }
    case RecordType::kPut: {
      const auto request = decode_put(record);
      items = request->keys.count();
      transfer(session, head, *request, true);
      break;
    }
    case RecordType::kGet: {
      const auto request = decode_get(record);
      items = request->keys.count();
      transfer(session, head, *request, false);
      break;
    }
    case RecordType::kStat: {
      const std::string text = "{\"filler\":\"" + std::string(9000, 'x') + "\"}";
      const uint32_t offset = decode_stat(record)->offset;
      answer(session, head, Code::kOk, 0, text.size(), bytes_of(text.substr(offset, 4000)));
      break;
    }
    case RecordType::kClear:
      ok(0, ++knobs_.generation);
      break;
    default:
      ok();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_.push_back({type, items});
}

void Peer::register_region(Session& session, const RecordHead& head,
                           const RegisterRegionRequest& r) {
  while (session.fds.count(r.token) == 0 && read_socket(session)) {  // READY may come before it
  }
  const auto fd = session.fds.find(r.token);
  if (fd == session.fds.end())
    return answer(session, head, Code::kInvalid, 0, 0, bytes_of("no fd came under the token"));
  MappedMemory memory =
      MappedMemory::map(fd->second.get(), r.offset, r.bytes, Access::kReadWrite).take();
  session.fds.erase(fd);
  auto& word = *reinterpret_cast<std::atomic<uint64_t>*>(memory.data() + r.echo_offset);
  if (word.load() != r.nonce)
    return answer(session, head, Code::kStaleMapping, 0, 0, bytes_of("the nonce isn't there"));
  word.store(r.nonce + 1);
  const uint64_t handle = ++last_handle_;
  session.regions.emplace(handle, std::move(memory));
  answer(session, head, Code::kOk, handle, r.nonce + 1, {});
}

void Peer::lookup(Session& session, const RecordHead& head, const LookupRequest& request) {
  session.lookup_keys += text_of(request.keys.bytes);
  session.lookup_cells.push_back(request.keys.count());
  const uint32_t key_bytes = request.keys.key_bytes;
  if (session.lookup_keys.size() < size_t{request.total} * key_bytes) return;
  const std::string identity = session.namespaces[request.pools[0].namespace_handle];
  std::vector<bool> present;
  for (uint32_t i = 0; i < request.total; ++i)
    present.push_back(
        pages_.count(identity + session.lookup_keys.substr(size_t{i} * key_bytes, key_bytes)) != 0);
  uint32_t longest = 0;
  while (longest < request.total && present[longest]) ++longest;
  uint32_t key = 0;
  for (size_t cell = 0; cell < session.lookup_cells.size(); ++cell) {
    const uint32_t keys = session.lookup_cells[cell];
    std::string payload((keys + 7) / 8 + keys, '\0');
    for (uint32_t i = 0; i < keys; ++i, ++key) {
      if (key < longest) payload[i / 8] = static_cast<char>(payload[i / 8] | (1 << (i % 8)));
      payload[(keys + 7) / 8 + i] = static_cast<char>(present[key] ? Place::kHost : Place::kMiss);
    }
    CompletionHead out{};
    out.request = head.request;
    out.type = static_cast<uint8_t>(head.type);
    out.cell = static_cast<uint16_t>(cell);
    out.cells = static_cast<uint16_t>(session.lookup_cells.size());
    out.items = keys;
    out.handle = request.lease_ms > 0 ? ++last_handle_ : 0;
    out.value = longest;
    session.out->push(out, bytes_of(payload));
  }
  session.lookup_keys.clear();
  session.lookup_cells.clear();
}

bool Peer::copy(Session& session, const std::vector<Run>& runs, std::vector<std::byte>& page,
                bool put) {
  size_t done = 0;
  for (const Run& run : runs) {
    const auto region = session.regions.find(run.region);
    if (region == session.regions.end()) return false;
    std::byte* memory = region->second.data() + run.offset;
    if (put) {
      page.insert(page.end(), memory, memory + run.length);
    } else {
      if (done + run.length > page.size()) return false;
      std::memcpy(memory, page.data() + done, run.length);
    }
    done += run.length;
  }
  return true;
}

template <typename Request>
void Peer::transfer(Session& session, const RecordHead& head, const Request& request, bool put) {
  const std::string identity = session.namespaces[request.namespace_handle];
  const SessionMemory memory = session.share->memory();
  std::string statuses;
  for (uint32_t i = 0; i < request.keys.count(); ++i) {
    std::vector<Run> runs;
    uint32_t word = 0;
    if (!request.items.blocks.empty()) {
      const Block& block = request.items.blocks[i];
      word = block.claim;
      for (const LayoutRun& run : session.layouts[block.layout].runs)
        runs.push_back({run.region, run.base + run.block_stride * block.block, run.run_length});
    } else {
      const RunItem& item = request.items.run_items[i];
      word = item.claim;
      const auto begin = request.items.runs.begin() + item.first_run;
      runs.assign(begin, begin + item.run_count);
    }
    const Claim claim(memory.claim(word), head.request, static_cast<uint16_t>(i));
    if (!claim.move(ClaimState::kQueued, ClaimState::kCopying)) {
      statuses += static_cast<char>(Code::kRevoked);
      continue;
    }
    if (knobs_.answers_early) statuses += static_cast<char>(Code::kOk);
    if (knobs_.holds_copies || knobs_.answers_early) continue;
    const std::string key = identity + text_of(request.keys[i]);
    Code code = Code::kOk;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (put) {
      std::vector<std::byte> page;
      code = copy(session, runs, page, true) ? Code::kOk : Code::kInvalid;
      pages_[key] = page;
    } else if (pages_.count(key) == 0) {
      code = Code::kMiss;
    } else {
      code = copy(session, runs, pages_[key], false) ? Code::kOk : Code::kInvalid;
    }
    claim.move(ClaimState::kCopying, code == Code::kOk ? ClaimState::kDone : ClaimState::kFailed);
    statuses += static_cast<char>(code);
  }
  if (!knobs_.holds_copies) answer(session, head, Code::kOk, 0, 0, bytes_of(statuses));
}

}  // namespace kvsidecar::testing
