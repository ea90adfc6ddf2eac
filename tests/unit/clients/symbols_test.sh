#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Goal: the library exports its C ABI and nothing else.
# Method: nm's list of defined dynamic symbols.
set -eu
symbols=$(nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//' | grep -v '^KVSIDECAR_0$')
[ -n "$symbols" ]
if others=$(echo "$symbols" | grep -v '^kvs_'); then
  echo "exported beside kvs_*: $others" >&2
  exit 1
fi
echo "$symbols" | grep -qx kvs_open
