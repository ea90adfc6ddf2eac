/* SPDX-License-Identifier: Apache-2.0
 *
 * kvsidecar client, C ABI: the connection. Includes the rest of the ABI.
 *
 * Rules of the whole ABI
 *  - Every struct begins with struct_size: set it to sizeof of the struct and zero the rest; a zero
 *    field means its default. Larger (newer) structs are accepted if what the library doesn't know
 *    is zero.
 *  - All functions may be called from any thread, at the same time, on one client: a client has one
 *    internal mutex, never held while waiting. Only kvs_close must be the last call.
 *  - Functions return KVS_OK or the reason, with a sentence in kvs_last_error(). No exceptions, no
 *    signals, no output.
 *  - Pointers given to a call are read during the call only, unless it says otherwise.
 *  - Times are nanoseconds of CLOCK_MONOTONIC; a timeout of 0 is the client's default_timeout_ns.
 *  - After fork() the child's copies of clients are dead: every call returns KVS_UNAVAILABLE and
 *    touches nothing shared. Open a new client in the child.
 *
 * One keeper thread per client watches the daemon's life, connects again with a growing pause,
 * attaches and registers again, ends operations at their deadline and feeds queued ones. Ids of
 * regions, layouts, namespaces and fences stay valid over a reconnect; leases don't.
 */
#ifndef KVSIDECAR_H
#define KVSIDECAR_H

#include "kvsidecar_identity.h"
#include "kvsidecar_memory.h"
#include "kvsidecar_ops.h"
#include "kvsidecar_results.h"
#include "kvsidecar_status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVS_LOG_INFO = 1, KVS_LOG_WARNING = 2, KVS_LOG_ERROR = 3 };

/* Called from any thread of the process that is inside the library, or from the keeper. It must not
 * call kvs_* functions and should be quick. `text` is valid during the call. */
typedef void (*kvs_log_fn)(void* context, int level, const char* text);

typedef struct kvs_options {
  size_t struct_size;
  const char* socket_path;     /* NULL: $KVSIDECAR_SOCKET, else /run/kvsidecar/kvsidecar.sock */
  const char* name;            /* for the daemon's logs, at most 47 bytes; NULL: program's name */
  uint64_t connect_timeout_ns; /* how long kvs_open waits for the daemon; 0: 2 s */
  uint64_t default_timeout_ns; /* of operations and calls that name none; 0: 1 s */
  uint64_t spin_ns;            /* how long waiting spins before it sleeps; 0: 100 us while answers
                                  have lately come that soon; UINT64_MAX: never spin */
  uint64_t reconnect_min_ns;   /* first pause between attempts; 0: 10 ms */
  uint64_t reconnect_max_ns;   /* longest pause; 0: 1 s */
  uint64_t staging_bytes;      /* memory for staged regions, made at first use; 0: 64 MiB */
  uint32_t operations_max;     /* operations not yet freed; beyond: KVS_BUSY; 0: 4096 */
  uint32_t
      allow_disconnected; /* 1: kvs_open succeeds without a daemon; the keeper goes on trying */
  uint32_t no_reconnect;  /* 1: when the daemon goes, the client stays unavailable */
  uint32_t reserved;
  kvs_log_fn log; /* NULL: no log */
  void* log_context;
} kvs_options;

typedef struct kvs_client kvs_client;

/* Opens a client. Blocks at most connect_timeout_ns. KVS_UNAVAILABLE when no daemon answered in
 * that time (and allow_disconnected is 0), KVS_DENIED or KVS_UNSUPPORTED_VERSION when it refused.
 * *client is the caller's, to be closed; it is NULL after an error. options may be NULL. */
KVS_API kvs_status kvs_open(const kvs_options* options, kvs_client** client);

/* Ends the session and frees the client, its operations, regions and the memory it handed out.
 * Pending claims are revoked; blocks for at most wait_ns (0: 10 s) for gets that are being copied.
 * KVS_OK: all blocks are the engine's. KVS_TIMEOUT: a get is still being copied; the client is
 * closed for calls, and the library keeps mapped (leaks) what the daemon may still write: memory of
 * an engine's own must not be reused before the daemon's death. NULL is allowed. */
KVS_API kvs_status kvs_close(kvs_client* client, uint64_t wait_ns);

/* A file descriptor that polls readable when kvs_poll has something to report. It stays the same
 * for the client's life, over reconnects. The library's: don't read from it, don't close it; poll,
 * select, epoll and event loops may watch it. -1 in a forked child. Never blocks. */
KVS_API int kvs_event_fd(kvs_client* client);

/* What is known about the connection. Never blocks. */
typedef struct kvs_connection {
  size_t struct_size;
  uint32_t connected; /* 1: attached and registered; operations are accepted */
  int32_t daemon_pid; /* 0 when not connected or not visible */
  uint64_t connects;  /* grows with every connection made; 0: none yet */
  uint64_t epoch;     /* of the daemon, of the latest connection */
  uint64_t session;
  uint8_t node[16]; /* the node's uuid */
} kvs_connection;
KVS_API kvs_status kvs_connection_get(kvs_client* client, kvs_connection* connection);

/* 1 when connected, else 0. Never blocks. */
KVS_API int kvs_connected(kvs_client* client);

/* The epoch of the daemon of the latest connection, 0 before the first. Never blocks. */
KVS_API uint64_t kvs_epoch(kvs_client* client);

/* Waits until the client is connected, at most timeout_ns: KVS_OK, else KVS_UNAVAILABLE. Blocks. */
KVS_API kvs_status kvs_wait_connected(kvs_client* client, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
