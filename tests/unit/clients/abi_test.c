/* SPDX-License-Identifier: Apache-2.0
 *
 * Goal: the headers are C11 and the library needs nothing of C++ from its caller. Method: this file
 * is compiled as C and calls what works without a daemon. Exit 0 = all held.
 */
#include <stdio.h>
#include <string.h>

#include "clients/cpp/kvsidecar.h"

#define EXPECT(condition)                                                                   \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, kvs_last_error()); \
      return 1;                                                                             \
    }                                                                                       \
  } while (0)

int main(void) {
  kvs_options options = {0};
  kvs_client* client = NULL;
  kvs_namespace_fields fields = {0};
  kvs_description description = {0};
  uint32_t tokens[2] = {7, 0x01020304};
  uint8_t bytes[64];
  size_t size = 0;
  kvs_op op = 77;

  EXPECT(kvs_version() == ((KVS_ABI_MAJOR << 16) | KVS_ABI_MINOR));
  EXPECT(strcmp(kvs_status_name(KVS_MISS), "MISS") == 0);
  EXPECT(strcmp(kvs_status_name(-1), "?") == 0 && strcmp(kvs_status_name(99), "?") == 0);

  EXPECT(kvs_open(&options, &client) == KVS_INVALID && client == NULL);
  EXPECT(strstr(kvs_last_error(), "struct_size") != NULL);
  options.struct_size = sizeof options;
  options.socket_path = "/nonexistent/kvsidecar.sock";
  options.connect_timeout_ns = 20 * 1000 * 1000;
  EXPECT(kvs_open(&options, &client) == KVS_UNAVAILABLE && client == NULL);
  EXPECT(kvs_lookup(NULL, NULL, &op) == KVS_INVALID);
  EXPECT(kvs_close(NULL, 0) == KVS_OK);

  fields.struct_size = sizeof fields;
  fields.model = "m";
  EXPECT(kvs_identity_encode(&fields, NULL, bytes, sizeof bytes, &size) == KVS_INVALID);
  EXPECT(strstr(kvs_last_error(), "revision") != NULL);

  description.struct_size = sizeof description;
  description.token_ids = tokens;
  description.token_count = 2;
  description.block_size = 16;
  EXPECT(kvs_description_encode(&description, NULL, 0, &size) == KVS_OVER_QUOTA && size == 24);
  EXPECT(kvs_description_encode(&description, bytes, sizeof bytes, &size) == KVS_OK);
  EXPECT(memcmp(bytes, "\2\0\10\0\0\0\7\0\0\0\4\3\2\1\3\0\4\0\0\0\20\0\0\0", 24) == 0);
  return 0;
}
