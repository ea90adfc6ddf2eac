// SPDX-License-Identifier: Apache-2.0
#include "sidecar/conductor/regions.h"

#include <algorithm>

#include "sidecar/conductor/answers.h"
#include "sidecar/conductor/sessions.h"

namespace kvsidecar {
namespace {

struct Import {
  MemoryHandle memory;
  std::unique_ptr<Region> region;
  Status status;
};

// The last close of much memory takes long: on the reaper.
void close_pending(World& world, Session& session, uint64_t token) {
  const auto found = session.pending_fds.find(token);
  auto fd = std::make_shared<UniqueFd>(std::move(found->second));
  session.pending_fds.erase(found);
  if (*fd && !world.reaper_is_behind()) world.send(make_errand([fd] { fd->reset(); }, nullptr));
}

void import_region(Device& device, Import& import, const RegisterRegionRequest& request,
                   uint64_t reply) {
  Result<std::unique_ptr<Region>> region = device.import(std::move(import.memory));
  if (!region.ok()) {
    import.status = region.status();
    return;
  }
  import.region = region.take();
  import.status = device.echo(*import.region, request.echo_offset, request.nonce, reply);
  if (!import.status.ok()) device.close(std::move(import.region));
}

void finish_import(World& world, const OpRef& op, Import& import, uint64_t bytes, uint64_t reply) {
  Session& session = *op->session;
  --session.importing;
  if (!import.status.ok()) {
    session.region_bytes -= bytes;
    world.accounts[session.permissions.entry].region_bytes -= bytes;
    return answer(world, *op, import.status.code(), 0, 0, text_bytes(import.status.text()));
  }
  auto slot = std::make_shared<RegionSlot>();
  slot->region = std::move(import.region);
  slot->handle = world.new_handle();
  slot->world = &world;
  slot->account = session.permissions.entry;
  if (!session.ended) session.regions[slot->handle] = slot;
  answer(world, *op, Code::kOk, slot->handle, reply, {});
}

Status admit_region(World& world, Session& session, const RegisterRegionRequest& request) {
  if (request.kind != 0)
    return invalid("kind " + std::to_string(request.kind) +
                   " of region is not known here; 0 = host fd");
  if (session.regions.size() + session.importing >= world.limits.regions_per_session)
    return {Code::kOverQuota, "regions: this session has " +
                                  std::to_string(session.regions.size()) +
                                  "; unregister some or raise limits.regions_per_session"};
  if (request.bytes == 0)
    return invalid("bytes of region is 0; register at least the 8 bytes of the echo");
  if (request.bytes < 8 || request.echo_offset > request.bytes - 8 || request.echo_offset % 8 != 0)
    return invalid("echo_offset " + std::to_string(request.echo_offset) +
                   " must be a multiple of 8 and leave 8 bytes of the region's " +
                   std::to_string(request.bytes));
  const uint64_t limit = session.permissions.region_bytes_max;
  const uint64_t held = world.accounts[session.permissions.entry].region_bytes;
  if (limit != 0 && (request.bytes > limit || held > limit - request.bytes))
    return {Code::kOverQuota, "bytes " + std::to_string(request.bytes) + " of region: with " +
                                  std::to_string(held) + " held it passes region_bytes_max " +
                                  std::to_string(limit)};
  return {};
}

Status await_fd(Session& session, const OpRef& op, const RegisterRegionRequest& request) {
  if (session.awaited_fds.size() >= kPendingFdsMax)
    return {Code::kBusy, "regions: " + std::to_string(session.awaited_fds.size()) +
                             " registrations wait for their fds; send those first"};
  if (!session.awaited_fds.try_emplace(request.token, AwaitedFd{op, request}).second)
    return invalid("token " + std::to_string(request.token) +
                   ": another registration waits for its fd; take a new token for each");
  return {};
}

Status check_run(World& world, Session& session, const LayoutRun& run, uint32_t blocks,
                 size_t number, LayoutSlot& layout) {
  const std::string name = "run " + std::to_string(number) + " of layout: ";
  const auto region = session.regions.find(run.region);
  if (region == session.regions.end()) {
    const Status unknown = world.unknown_handle("region", run.region);
    return {unknown.code(), name + unknown.text()};
  }
  const uint64_t bytes = region->second->region->bytes();
  if (run.run_length == 0) return invalid(name + "run_length is 0; leave the run out");
  const uint64_t steps = blocks - 1;
  const bool fits = run.run_length <= bytes && run.base <= bytes - run.run_length &&
                    (steps == 0 || run.block_stride <= (bytes - run.run_length - run.base) / steps);
  if (!fits)
    return invalid(name + "base " + std::to_string(run.base) + ", stride " +
                   std::to_string(run.block_stride) + ", length " + std::to_string(run.run_length) +
                   " leave the region's " + std::to_string(bytes) + " bytes at block " +
                   std::to_string(steps) + "; lower blocks or register the whole allocation");
  layout.layout.runs.push_back(
      {region->second->region.get(), run.base, run.block_stride, run.run_length});
  layout.regions.push_back(region->second);
  return {};
}

Status resolve_block(World& world, Session& session, const Block& block, uint64_t part_bytes,
                     Operation& op, OpItem& item) {
  const auto found = session.layouts.find(block.layout);
  if (found == session.layouts.end()) return world.unknown_handle("layout", block.layout);
  const BlockLayout& layout = found->second->layout;
  if (block.block >= layout.blocks)
    return invalid("block " + std::to_string(block.block) + " is not below the layout's " +
                   std::to_string(layout.blocks));
  if (layout.part_bytes != part_bytes)
    return invalid("layout's runs sum to " + std::to_string(layout.part_bytes) +
                   " bytes, the part has " + std::to_string(part_bytes) +
                   "; use the layout of this part");
  if (op.layouts.empty() || op.layouts.back() != found->second) op.layouts.push_back(found->second);
  item.layout = &layout;
  item.block = block.block;
  return {};
}

Status resolve_runs(World& world, Session& session, const RunItem& runs, const Items& items,
                    uint64_t part_bytes, Operation& op, OpItem& item) {
  uint64_t sum = 0;
  item.first_piece = static_cast<uint32_t>(op.pieces.size());
  item.piece_count = runs.run_count;
  for (uint32_t r = 0; r < runs.run_count; ++r) {
    const Run& run = items.runs[runs.first_run + r];
    const auto region = session.regions.find(run.region);
    if (region == session.regions.end()) return world.unknown_handle("region", run.region);
    const uint64_t bytes = region->second->region->bytes();
    if (run.length == 0 || run.length > bytes || run.offset > bytes - run.length)
      return invalid("run at offset " + std::to_string(run.offset) + ", length " +
                     std::to_string(run.length) + " is empty or leaves the region's " +
                     std::to_string(bytes) + " bytes");
    if (run.length > part_bytes - sum)
      return invalid("runs of an item sum to more than the part's " + std::to_string(part_bytes) +
                     " bytes");
    sum += run.length;
    op.pieces.push_back({nullptr, region->second->region.get(), run.offset, run.length});
    if (op.regions.empty() || op.regions.back() != region->second)
      op.regions.push_back(region->second);
  }
  if (sum != part_bytes)
    return invalid("runs of an item sum to " + std::to_string(sum) + " bytes, the part has " +
                   std::to_string(part_bytes));
  return {};
}

}  // namespace

RegionSlot::~RegionSlot() {
  if (region == nullptr || world == nullptr) return;
  World& owner = *world;
  owner.accounts[account].region_bytes -= region->bytes();
  auto closing = std::make_shared<std::unique_ptr<Region>>(std::move(region));
  Device* device = owner.parts.device;
  owner.send_to_device(make_errand([device, closing] { device->close(std::move(*closing)); },
                                   [&owner, op = unregister] {
                                     if (op) answer(owner, *op, Code::kOk, 0, 0, {});
                                   }));
}

void start_register_region(World& world, const OpRef& op, const RegisterRegionRequest& request) {
  Session& session = *op->session;
  if (session.pending_fds.count(request.token) == 0) {
    const Status status = await_fd(session, op, request);
    if (!status.ok()) answer(world, *op, status.code(), 0, 0, text_bytes(status.text()));
    return;
  }
  Status status = admit_region(world, session, request);
  if (status.ok() && !session.pending_fds[request.token])
    status = invalid("region fd under token " + std::to_string(request.token) +
                     " is no memory that the " + world.parts.device->name() +
                     " device takes; pass a memfd or a file of tmpfs or hugetlbfs, or use "
                     "register_staged");
  if (!status.ok()) {
    close_pending(world, session, request.token);
    return answer(world, *op, status.code(), 0, 0, text_bytes(status.text()));
  }
  const auto fd = session.pending_fds.find(request.token);
  auto import = std::make_shared<Import>();
  import->memory.fd = std::move(fd->second);
  import->memory.bytes = request.bytes;
  import->memory.offset = request.offset;
  session.pending_fds.erase(fd);
  session.region_bytes += request.bytes;
  world.accounts[session.permissions.entry].region_bytes += request.bytes;
  ++session.importing;
  uint64_t reply = world.parts.random->next();
  if (reply == request.nonce) ++reply;
  Device* device = world.parts.device;
  world.send_to_device(make_errand([=] { import_region(*device, *import, request, reply); },
                                   [&world, op, import, request, reply] {
                                     finish_import(world, op, *import, request.bytes, reply);
                                   }));
}

bool fd_fits(const Session& session, uint64_t token) {
  return session.pending_fds.size() < kPendingFdsMax && session.pending_fds.count(token) == 0;
}

void fd_arrived(World& world, Session& session, uint64_t token) {
  const auto found = session.awaited_fds.find(token);
  if (found == session.awaited_fds.end()) return;
  const AwaitedFd awaited = std::move(found->second);
  session.awaited_fds.erase(found);
  start_register_region(world, awaited.op, awaited.request);
}

void close_pending_fds(World& world, Session& session) {
  while (!session.pending_fds.empty())
    close_pending(world, session, session.pending_fds.begin()->first);
}

void fd_missed(World& world, const OpRef& op) {
  Session& session = *op->session;
  const auto found = std::find_if(session.awaited_fds.begin(), session.awaited_fds.end(),
                                  [&](const auto& awaited) { return awaited.second.op == op; });
  if (found == session.awaited_fds.end()) return;
  const std::string text = "token " + std::to_string(found->first) +
                           ": no fd came under it; send the fd over the socket";
  session.awaited_fds.erase(found);
  answer(world, *op, Code::kInvalid, 0, 0, text_bytes(text));
}

void register_layout(World& world, const OpRef& op, const RegisterLayoutRequest& request) {
  Session& session = *op->session;
  auto layout = std::make_shared<LayoutSlot>();
  layout->layout.blocks = request.blocks;
  Status status;
  if (session.layouts.size() >= world.limits.layouts_per_session)
    status = {Code::kOverQuota, "layouts: this session has " +
                                    std::to_string(session.layouts.size()) +
                                    "; unregister some or raise limits.layouts_per_session"};
  for (size_t r = 0; status.ok() && r < request.runs.size(); ++r) {
    status = check_run(world, session, request.runs[r], request.blocks, r, *layout);
    if (status.ok()) layout->layout.part_bytes += request.runs[r].run_length;
    if (status.ok() && layout->layout.part_bytes > kPageBytesMax)
      status = invalid("runs of layout sum to more than a page may have");
  }
  if (!status.ok()) return answer(world, *op, status.code(), 0, 0, text_bytes(status.text()));
  const Handle handle = world.new_handle();
  session.layouts[handle] = layout;
  answer(world, *op, Code::kOk, handle, layout->layout.part_bytes, {});
}

void start_unregister(World& world, const OpRef& op, Handle handle) {
  Session& session = *op->session;
  if (session.layouts.erase(handle) != 0) return answer(world, *op, Code::kOk, 0, 0, {});
  const auto found = session.regions.find(handle);
  if (found == session.regions.end()) {
    const Status unknown = world.unknown_handle("region or layout", handle);
    return answer(world, *op, unknown.code(), 0, 0, text_bytes(unknown.text()));
  }
  // Layouts over the region go with it; operations in flight keep both until they end.
  const std::shared_ptr<RegionSlot> region = found->second;
  region->unregister = op;
  session.regions.erase(found);
  for (auto it = session.layouts.begin(); it != session.layouts.end();) {
    bool uses = false;
    for (const auto& used : it->second->regions) uses |= used == region;
    it = uses ? session.layouts.erase(it) : std::next(it);
  }
  session.region_bytes -= region->region->bytes();
}

Status resolve_items(World& world, Session& session, const Items& items, uint64_t part_bytes,
                     Operation& op) {
  op.items.resize(items.count());
  for (uint32_t i = 0; i < op.items.size(); ++i) {
    const bool block = !items.blocks.empty();
    const uint32_t word = block ? items.blocks[i].claim : items.run_items[i].claim;
    std::atomic<uint64_t>* claim = session.memory.claim(word);
    if (claim == nullptr)
      return invalid("claim " + std::to_string(word) + " of item " + std::to_string(i) +
                     " is not below the session's " +
                     std::to_string(session.memory.geometry.claims));
    op.items[i].claim = Claim(claim, op.request, static_cast<uint16_t>(i));
    const Status status =
        block
            ? resolve_block(world, session, items.blocks[i], part_bytes, op, op.items[i])
            : resolve_runs(world, session, items.run_items[i], items, part_bytes, op, op.items[i]);
    if (!status.ok()) return {status.code(), "item " + std::to_string(i) + ": " + status.text()};
  }
  return {};
}

}  // namespace kvsidecar
