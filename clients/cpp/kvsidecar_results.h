/* SPDX-License-Identifier: Apache-2.0
 *
 * kvsidecar client, C ABI: what became of operations. Poll, wait, read the result, free.
 */
#ifndef KVSIDECAR_RESULTS_H
#define KVSIDECAR_RESULTS_H

#include "kvsidecar_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KVS_EVENT_FINISHED = 1, /* the result is there */
  KVS_EVENT_OVERDUE = 2   /* a get past its deadline whose blocks are still being written */
};
typedef struct kvs_event {
  kvs_op op;
  uint32_t kind;
  uint32_t reserved;
} kvs_event;

/* Takes answers in and writes at most `capacity` events to `events`, in the order they came; each
 * is reported once, and none of an operation that has been freed. Returns their number, 0 when
 * there are none. Never blocks (copies the blocks of staged gets). */
KVS_API size_t kvs_poll(struct kvs_client* client, kvs_event* events, size_t capacity);

/* Blocks until the operation has finished, at most timeout_ns (UINT64_MAX: until its deadline and,
 * for gets that are being copied, their settling). KVS_OK: finished, see the result. KVS_TIMEOUT:
 * not yet; the operation goes on. An operation that was waited for isn't reported by kvs_poll. */
KVS_API kvs_status kvs_wait(struct kvs_client* client, kvs_op op, uint64_t timeout_ns);

/* As kvs_wait for all of them. */
KVS_API kvs_status kvs_wait_all(struct kvs_client* client, const kvs_op* ops, size_t count,
                                uint64_t timeout_ns);

typedef struct kvs_result {
  size_t struct_size;
  kvs_status status;    /* KVS_OK also when single items missed; else the reason for all of them */
  uint32_t flags;       /* KVS_RESULT_… */
  const uint8_t* items; /* put, get, delete: one kvs_status an item */
  size_t item_count;
  const uint8_t* places; /* lookup: one KVS_PLACE_… a key; item_count of them */
  /* lookup: bit i (byte i / 8, bit i % 8) set: the prefix of i + 1 pages is restorable */
  const uint8_t* restorable;
  size_t restorable_bytes;
  uint64_t longest;    /* lookup: pages of the longest restorable prefix; 0: none */
  uint64_t lease;      /* lookup: 0 when none was asked for or given */
  uint64_t generation; /* clear: of the namespace from now on */
  const char* text;    /* stat, why: JSON; with an error: one sentence; never NULL, ends in NUL */
  size_t text_bytes;
  uint64_t submitted_ns, finished_ns; /* CLOCK_MONOTONIC; when called, when its answer was read */
  uint64_t served_ns; /* from receipt to answer inside the daemon, of the slowest record */
} kvs_result;

enum { KVS_PLACE_MISS = 0, KVS_PLACE_HOST = 1, KVS_PLACE_STORE = 2, KVS_PLACE_REMOTE = 3 };
enum { KVS_RESULT_LEASE_CAPPED = 1 }; /* a lease was asked for and not given */

/* The result of a finished operation. Pointers in it are the library's and valid until kvs_op_free.
 * KVS_BUSY: not finished. Takes answers in; never blocks. */
KVS_API kvs_status kvs_result_get(struct kvs_client* client, kvs_op op, kvs_result* result);

/* How many layers' worth of the layout's runs are in place for every item of a pending layered get:
 * the first *runs runs of each block may be used. UINT64_MAX when the get has finished and all its
 * items are KVS_OK. It may lag behind, never run ahead. Never blocks. */
KVS_API kvs_status kvs_progress(struct kvs_client* client, kvs_op op, uint64_t* runs);

/* Gives up an operation. Revokes what the daemon hasn't begun, abandons puts that are being copied;
 * the operation finishes with KVS_REVOKED for these, at once if nothing else is left. `free_items`
 * (NULL, or item_count bytes): 1 where the item's blocks are the engine's from now on, 0 for gets
 * that are being copied: they settle first. Never blocks. */
KVS_API kvs_status kvs_cancel(struct kvs_client* client, kvs_op op, uint8_t* free_items);

/* The same for single items of a put or get: indices[i] into its keys, free_items[i] as above. The
 * operation goes on for the others. Never blocks. */
KVS_API kvs_status kvs_revoke(struct kvs_client* client, kvs_op op, const uint32_t* indices,
                              size_t count, uint8_t* free_items);

/* Frees an operation and its result. A pending one is cancelled first; KVS_BUSY when a get of it is
 * being copied: the operation stays, wait and free it then. Never blocks. */
KVS_API kvs_status kvs_op_free(struct kvs_client* client, kvs_op op);

#ifdef __cplusplus
}
#endif
#endif
