/* SPDX-License-Identifier: Apache-2.0
 *
 * kvsidecar client, C ABI: memory. A region is memory that the daemon may copy from and to; a
 * layout says how a block number becomes memory in it; a fence is a 64-bit word that a copy waits
 * for.
 *
 * Regions and layouts are remembered by the library and registered again after a reconnect. A
 * registration ends with an echo (the library writes a nonce into the memory, the daemon reads it
 * and writes another): the words it uses are never part of what the caller may use. Registering
 * calls block until the daemon has answered, at most timeout_ns. Their results:
 *   KVS_OK            registered
 *   KVS_UNAVAILABLE   no daemon at the moment, or no answer in time: *id is valid and the keeper
 *                     registers it when there is one
 *   anything else     refused; *id is 0, nothing is kept, the memory is the caller's alone
 */
#ifndef KVSIDECAR_MEMORY_H
#define KVSIDECAR_MEMORY_H

#include "kvsidecar_status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvs_client;
typedef uint64_t kvs_region; /* ids of one client; 0 is none */
typedef uint64_t kvs_layout;
typedef uint64_t kvs_fence;

/* Memory handed out by the library. */
typedef struct kvs_memory {
  size_t struct_size;
  void* base;     /* page aligned, zeroed, readable and writable */
  uint64_t bytes; /* as asked for */
  int32_t fd;     /* the memfd, sealed against shrinking; base is its offset 0 */
  int32_t reserved;
} kvs_memory;

/* Makes a memfd of `bytes`, maps it, reserves its pages and registers it as a region. KVS_INVALID
 * when the machine or this process's cgroup hasn't that much memory. The library owns fd and
 * mapping; they live until kvs_region_unregister or kvs_close. */
KVS_API kvs_status kvs_memory_create(struct kvs_client* client, uint64_t bytes, uint64_t timeout_ns,
                                     kvs_memory* memory, kvs_region* region);

/* An engine's own memory: `bytes` of the file `fd` from `offset` on, which the engine has mapped
 * shared at `base` (NULL: the library maps it itself). The fd is duplicated. The file may be sealed
 * or not and must have its pages allocated.
 * echo_offset: 8 bytes of the region, aligned to 8, that the engine never uses; KVS_ECHO_AUTO: the
 * library lets the file grow by a page and uses that. Where it can't grow (sealed, hugetlb) the
 * call fails with KVS_INVALID. KVS_STALE_MAPPING: base is not a shared mapping of the file. */
#define KVS_ECHO_AUTO UINT64_MAX
KVS_API kvs_status kvs_region_register_fd(struct kvs_client* client, int fd, uint64_t offset,
                                          uint64_t bytes, void* base, uint64_t echo_offset,
                                          uint64_t timeout_ns, kvs_region* region);

/* Memory that can't be shared. The library copies between it and a staging memfd, which it says
 * once in the log: a put's blocks are read inside kvs_put (or, behind a fence, inside the call that
 * finds it reached), a get's are written inside kvs_poll, kvs_wait or by the keeper, before the
 * operation is finished. Its items are the engine's at once when they are cancelled or late. The
 * caller keeps `base` valid until kvs_region_unregister has returned. */
KVS_API kvs_status kvs_region_register_staged(struct kvs_client* client, void* base, uint64_t bytes,
                                              uint64_t timeout_ns, kvs_region* region);

/* Blocks until the daemon has unmapped the region, at most timeout_ns. KVS_OK or KVS_UNAVAILABLE
 * (the daemon is gone): the memory may be freed; memory handed out by the library is gone.
 * KVS_TIMEOUT: the daemon may still have it; call again. KVS_BUSY: an operation or a layout still
 * uses it. */
KVS_API kvs_status kvs_region_unregister(struct kvs_client* client, kvs_region region,
                                         uint64_t timeout_ns);

/* One contiguous piece of a block: at region + base + block * block_stride. */
typedef struct kvs_layout_run {
  kvs_region region;
  uint64_t base;
  uint64_t block_stride;
  uint64_t run_length;
} kvs_layout_run;

/* A block layout: blocks 0 .. blocks-1, each made of the runs in this order (for layered gets: one
 * run or an equal number of runs a layer, first layer first). The part's bytes are the runs' sum.
 */
KVS_API kvs_status kvs_layout_register(struct kvs_client* client, uint32_t blocks,
                                       const kvs_layout_run* runs, size_t run_count,
                                       uint64_t timeout_ns, kvs_layout* layout);

/* As kvs_region_unregister. */
KVS_API kvs_status kvs_layout_unregister(struct kvs_client* client, kvs_layout layout,
                                         uint64_t timeout_ns);

/* A fence: a 64-bit word that only grows; a copy that names (fence, value) waits until the word is
 * at least value. Its value survives a reconnect. Never blocks. KVS_BUSY: no word is left. */
KVS_API kvs_status kvs_fence_create(struct kvs_client* client, kvs_fence* fence);

/* Raises the word to `value` (a smaller one is ignored) after all earlier writes of this thread,
 * and wakes the daemon if it sleeps. Never blocks. */
KVS_API kvs_status kvs_fence_signal(struct kvs_client* client, kvs_fence fence, uint64_t value);

/* Gives the word back; no pending operation may name it. Never blocks. */
KVS_API kvs_status kvs_fence_destroy(struct kvs_client* client, kvs_fence fence);

#ifdef __cplusplus
}
#endif
#endif
