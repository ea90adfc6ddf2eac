/* SPDX-License-Identifier: Apache-2.0
 *
 * kvsidecar client, C ABI: what decides the bytes of a page besides its key, and attaching to it.
 */
#ifndef KVSIDECAR_IDENTITY_H
#define KVSIDECAR_IDENTITY_H

#include "kvsidecar_status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvs_client;
typedef uint64_t kvs_namespace; /* an id of one client; 0 is none */

typedef struct kvs_coordinate {
  uint16_t tp, pp, cp, reserved; /* reserved = 0 */
} kvs_coordinate;

/* One rank's share of a page. */
typedef struct kvs_part {
  kvs_coordinate coordinate;
  uint64_t bytes;
} kvs_part;

/* A further field of the identity. */
typedef struct kvs_extra {
  const char* name;
  const void* value;
  size_t value_bytes;
} kvs_extra;

/* Strings are UTF-8. Required ones may not be NULL; an optional one that is NULL is absent, which
 * is not the same as "". */
typedef struct kvs_namespace_fields {
  size_t struct_size;
  const char* model;        /* required, not empty */
  const char* revision;     /* required, not empty: revision or fingerprint of the weights */
  const char* dtype;        /* required, not empty */
  const char* quantization; /* required; "none" */
  const char* layout;       /* required, not empty: how a part's bytes are arranged */
  const char* pool;         /* required: "kv", "mamba", …; 1..64 bytes */
  const char* draft_model;  /* required; "none" */
  const char* adapter;      /* optional: content id of the adapter */
  const char* tenant_salt;  /* optional */
  const char* key_scheme;   /* optional: how the engine makes its keys */
  uint32_t tokens_per_page; /* required, >= 1 */
  uint16_t tp_size, pp_size, cp_size; /* required, each >= 1 */
  uint16_t slice, slices;             /* required: this node's slice of the model, slice < slices */
  uint16_t reserved;
  const kvs_part* parts; /* required: the parts of this slice, in the order of their digests */
  size_t part_count;
  const kvs_extra* extras;
  size_t extra_count;
} kvs_namespace_fields;

/* The canonical form. Writes at most `capacity` bytes to `out` and their full number to *bytes;
 * KVS_OVER_QUOTA when it didn't fit (out may be NULL to ask), KVS_INVALID naming the field. detach:
 * NULL, or the 16 bytes of a group's uuid. Pure; any thread. */
KVS_API kvs_status kvs_identity_encode(const kvs_namespace_fields* fields, const uint8_t* detach,
                                       void* out, size_t capacity, size_t* bytes);

/* The 128-bit namespace id of a canonical form. Pure; any thread. */
KVS_API kvs_status kvs_namespace_id(const void* identity, size_t identity_bytes, uint8_t id[16]);

#define KVS_RANK_COORDINATOR 0xffff /* a member without a part, e.g. vLLM's scheduler */

typedef struct kvs_attach_args {
  size_t struct_size;
  const kvs_namespace_fields* fields;
  const uint8_t* group;           /* 16 bytes, one uuid for all ranks of an engine; NULL: alone */
  uint16_t group_size;            /* ranks, coordinators not counted */
  uint16_t rank;                  /* or KVS_RANK_COORDINATOR */
  kvs_coordinate coordinate;      /* this session's part: the default of puts and gets */
  uint32_t description_bytes_max; /* largest description of a put in this namespace */
  uint32_t detach;                /* 1: pages are shared within the group only */
  uint64_t timeout_ns;
} kvs_attach_args;

/* Attaches to a namespace. Blocks until the daemon has answered, at most timeout_ns. KVS_OK;
 * KVS_UNAVAILABLE: no daemon now, *ns is valid and the keeper attaches when there is one; anything
 * else: refused, *ns is 0. When a reconnect finds that somebody else has cleared the namespace
 * since, its operations end KVS_STALE_NAMESPACE until this client clears it or attaches anew. */
KVS_API kvs_status kvs_attach(struct kvs_client* client, const kvs_attach_args* args,
                              kvs_namespace* ns);

/* Forgets a namespace: it isn't attached again after a reconnect. The daemon's side ends with the
 * session. Never blocks. */
KVS_API kvs_status kvs_detach(struct kvs_client* client, kvs_namespace ns);

/* What is known of an attached namespace: its id and its generation (0 while unknown). */
KVS_API kvs_status kvs_namespace_get(struct kvs_client* client, kvs_namespace ns, uint8_t id[16],
                                     uint64_t* generation);

/* What a put may tell about a page, kept with it for KV events. All optional. */
typedef struct kvs_description {
  size_t struct_size;
  const void* parent_key; /* key of the page before this one */
  size_t parent_key_bytes;
  const uint32_t* token_ids;
  size_t token_count;
  uint32_t block_size; /* tokens a block; 0: absent */
  uint32_t has_pool_group;
  uint32_t pool_group; /* vLLM's group index */
  uint32_t reserved;
  const char* adapter;    /* name as routers know it */
  const void* extra_keys; /* opaque bytes */
  size_t extra_keys_bytes;
} kvs_description;

/* The canonical form: entries (u16 tag, u32 length, bytes), little-endian, sorted by tag; tags 1
 * parent key, 2 token ids (u32 each), 3 block size (u32), 4 adapter, 5 extra keys, 6 pool group
 * (u32); 7, which importers alone write, marks a page that no engine put: text, where it came from.
 * Absent ones are left out. Results as kvs_identity_encode. Pure; any thread. */
KVS_API kvs_status kvs_description_encode(const kvs_description* description, void* out,
                                          size_t capacity, size_t* bytes);

#ifdef __cplusplus
}
#endif
#endif
