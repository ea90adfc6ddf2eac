/* SPDX-License-Identifier: Apache-2.0
 *
 * kvsidecar client, C ABI: versions, statuses, and who owns the memory after each of them.
 *
 * Statuses describe a call (returned), an operation (kvs_result.status) and one item of an
 * operation (kvs_result.items). "Engine" below means: that item's blocks are the caller's again;
 * neither the daemon nor the library will touch them any more. While an operation is pending its
 * blocks are the daemon's: a get's may not be read or written, a put's may not be written.
 *
 * An item of a finished operation always belongs to the engine: an operation finishes only when
 * nothing can touch its blocks. That holds for KVS_UNAVAILABLE too: an item of a get that was being
 * copied gets that status only after the daemon's pidfd has reported its death. Items may be free
 * earlier: kvs_cancel and kvs_revoke say which.
 */
#ifndef KVSIDECAR_STATUS_H
#define KVSIDECAR_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KVS_API __attribute__((visibility("default")))
#else
#define KVS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The ABI of these headers. The major number is the library's SOVERSION. */
#define KVS_ABI_MAJOR 0
#define KVS_ABI_MINOR 1

typedef int32_t kvs_status;
enum {
  KVS_OK = 0,         /* engine. put: stored in host memory; get: the bytes are there */
  KVS_OK_PART = 1,    /* engine. put of one part while others of the page are missing */
  KVS_EXISTS = 2,     /* engine. put of a page that is complete already; nothing was copied */
  KVS_MISS = 3,       /* engine; get: the blocks' content is undefined */
  KVS_NOT_STORED = 4, /* engine. durable put: in host memory, not in the store */
  KVS_TIMEOUT = 5,    /* engine; the deadline passed. get: content undefined */
  KVS_REVOKED = 6,    /* engine; cancelled before the copy began: a get's blocks unchanged */
  KVS_ABANDONED = 7,  /* engine; a put given up during its copy: it never becomes a page */
  KVS_BUSY = 8,       /* engine. a queue or the pool was full; from a call: nothing was begun */
  KVS_IO_ERROR = 9,   /* engine. the store could not read the page: a miss of it */
  KVS_CORRUPT = 10,   /* engine. the bytes did not prove themselves: a miss; content undefined */
  KVS_INVALID = 11,   /* engine. a field is wrong; the text names it, its value, the remedy */
  KVS_UNKNOWN_HANDLE = 12,  /* engine. a handle or id that this client doesn't have */
  KVS_STALE_HANDLE = 13,    /* engine. a handle of an earlier life of the daemon (a lease) */
  KVS_STALE_NAMESPACE = 14, /* engine. cleared by somebody else since this client attached */
  KVS_STALE_MAPPING = 15,   /* engine. the echo failed: the daemon mapped other memory */
  KVS_EXPIRED = 16,         /* engine. a lease or a group's ticket has ended */
  KVS_DENIED = 17,          /* engine. no [[allow]] entry lists this user or operation */
  KVS_OVER_QUOTA = 18,      /* engine. the session would exceed a quota */
  KVS_MEMORY_FAULT = 19,    /* engine. registered memory vanished under a copy */
  KVS_UNAVAILABLE = 20,     /* engine. no daemon answers; a get's content is undefined. From a call:
                               nothing was begun */
  KVS_UNSUPPORTED_VERSION = 21,
  KVS_DRAINING = 22, /* engine. the daemon is shutting down and takes no new work */
  KVS_INTERNAL = 23  /* engine. a failure without a name of its own */
};

/* Major in the upper 16 bits, minor in the lower ones, of the library that is loaded. Any thread;
 * never blocks. */
KVS_API uint32_t kvs_version(void);

/* "OK", "MISS", …; "?" for an unknown value. Never NULL; static storage. Any thread. */
KVS_API const char* kvs_status_name(kvs_status status);

/* The sentence of the calling thread's last kvs_* call that returned a status other than KVS_OK;
 * "" if there was none. Valid until this thread's next kvs_* call. Any thread; never blocks. */
KVS_API const char* kvs_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
