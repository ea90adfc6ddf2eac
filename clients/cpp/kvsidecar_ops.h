/* SPDX-License-Identifier: Apache-2.0
 *
 * kvsidecar client, C ABI: operations. Each call below returns at once with an operation id (never
 * 0): it copies what it needs, splits what is larger than one request, sends what there is room for
 * and queues the rest inside the library. The answer is one result (kvsidecar_results.h); free it
 * with kvs_op_free.
 *
 * Returns KVS_OK and *op, or nothing was begun: KVS_INVALID, KVS_UNKNOWN_HANDLE,
 * KVS_STALE_NAMESPACE, KVS_UNAVAILABLE (no daemon now), KVS_BUSY (operations_max reached), or the
 * status with which the daemon refused the namespace, region or layout.
 *
 * Deadline: now + timeout_ns. Then the library itself revokes what the daemon hasn't begun and
 * abandons puts that are being copied: their blocks are free at once and the operation finishes
 * with KVS_TIMEOUT. Gets that are being copied are overdue: kvs_poll says so, and the operation
 * finishes when they have settled or the daemon is dead.
 */
#ifndef KVSIDECAR_OPS_H
#define KVSIDECAR_OPS_H

#include "kvsidecar_identity.h"
#include "kvsidecar_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t kvs_op; /* an id of one client, never used twice; 0 is none */

/* Keys of one length (1..64 bytes), end to end. */
typedef struct kvs_keys {
  const void* bytes;
  uint32_t key_bytes;
  uint32_t count; /* >= 1 */
} kvs_keys;

enum { KVS_ALL_PAGES = 0, KVS_TRAILING_PAGES = 1 };

/* A pool of a lookup: under trailing_pages n a prefix is restorable when its last n pages are
 * there. */
typedef struct kvs_pool_policy {
  kvs_namespace ns;
  uint32_t policy;
  uint32_t pages; /* n >= 1 for KVS_TRAILING_PAGES, else 0 */
} kvs_pool_policy;

typedef struct kvs_lookup_args {
  size_t struct_size;
  kvs_keys keys; /* a prompt's keys in order, at most 32768, and 65536 / pool_count */
  const kvs_pool_policy* pools;
  size_t pool_count; /* 1..16 */
  uint64_t ticket;   /* all ranks of a group that pass one ticket get one answer; 0: none */
  uint32_t lease_ms; /* hold the pages that long; 0: no lease */
  uint32_t prefetch; /* 1: read pages of the store into host memory meanwhile */
  uint64_t timeout_ns;
} kvs_lookup_args;
KVS_API kvs_status kvs_lookup(struct kvs_client* client, const kvs_lookup_args* args, kvs_op* op);

typedef struct kvs_run {
  kvs_region region;
  uint64_t offset, length;
} kvs_run;

/* Where the items are, one an item of the keys: blocks of a layout, or runs. */
typedef struct kvs_items {
  kvs_layout layout;          /* of all items, unless layouts is given */
  const kvs_layout* layouts;  /* one an item, or NULL */
  const uint32_t* blocks;     /* one an item; NULL: runs are used */
  const kvs_run* runs;        /* all items' runs, end to end, in the part's byte order */
  const uint32_t* run_counts; /* one an item, 1..64 each */
} kvs_items;

/* What put and get share. Fields marked "put" or "get" are ignored by the other. */
typedef struct kvs_transfer_args {
  size_t struct_size;
  kvs_namespace ns;
  kvs_keys keys;
  kvs_items items;
  uint32_t has_coordinate; /* 1: the part of `coordinate`; 0: the session's own */
  kvs_coordinate coordinate;
  uint32_t durable; /* put. 1: OK only when the store has the page */
  kvs_fence fence;  /* the copy waits until the fence is at least fence_value; 0: none */
  uint64_t fence_value;
  uint64_t timeout_ns;
  uint32_t position;                /* put. index of the first key in its prompt, a hint */
  uint32_t prompt_pages;            /* put. pages of the whole prompt; 0: unknown */
  const void* descriptions;         /* put. one blob an item, end to end; NULL: none */
  const uint32_t* description_ends; /* put. where each ends */
  uint64_t lease;                   /* get. of a lookup; 0: none */
  uint32_t layered;                 /* get. 1: kvs_progress will be asked */
  uint32_t reserved;
} kvs_transfer_args;
KVS_API kvs_status kvs_put(struct kvs_client* client, const kvs_transfer_args* args, kvs_op* op);
KVS_API kvs_status kvs_get(struct kvs_client* client, const kvs_transfer_args* args, kvs_op* op);

/* Ends a lease early. */
KVS_API kvs_status kvs_release(struct kvs_client* client, uint64_t lease, uint64_t timeout_ns,
                               kvs_op* op);

/* An empty request: answered by the daemon without any work. Shows that it answers, how fast. */
KVS_API kvs_status kvs_noop(struct kvs_client* client, uint64_t timeout_ns, kvs_op* op);

/* Removes pages; one status an item. */
KVS_API kvs_status kvs_delete(struct kvs_client* client, kvs_namespace ns, const kvs_keys* keys,
                              uint64_t timeout_ns, kvs_op* op);

/* Starts a new generation of a namespace: no page of before is found again, and other clients'
 * attachments end. kvs_clear: this client's, by its id. kvs_clear_id: any, for administrators. */
KVS_API kvs_status kvs_clear(struct kvs_client* client, kvs_namespace ns, uint64_t timeout_ns,
                             kvs_op* op);
KVS_API kvs_status kvs_clear_id(struct kvs_client* client, const uint8_t namespace_id[16],
                                uint64_t timeout_ns, kvs_op* op);

enum { KVS_STAT_STATUS = 0, KVS_STAT_NAMESPACES = 1, KVS_STAT_SESSIONS = 2, KVS_STAT_DRAIN = 3 };
/* The daemon's own account, as JSON in the result's text. KVS_STAT_DRAIN asks it to drain. */
KVS_API kvs_status kvs_stat(struct kvs_client* client, uint32_t what, uint64_t timeout_ns,
                            kvs_op* op);

/* What the daemon knows of one key, as JSON in the result's text. namespace_id NULL: in all. */
KVS_API kvs_status kvs_why(struct kvs_client* client, const uint8_t* namespace_id, const void* key,
                           size_t key_bytes, uint64_t timeout_ns, kvs_op* op);

#ifdef __cplusplus
}
#endif
#endif
