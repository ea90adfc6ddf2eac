#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# no_planted_bugs.sh WITH WITHOUT…: symbols of planted bugs are in the first file and in no other.
set -u
names() { nm -C "$1" | grep -c 'kvsidecar::.*planted(\|kvsidecar::planted('; }
with=$1
shift
if [ "$(names "$with")" -eq 0 ]; then
  echo "no planted bug is seen in $with, where they are: nm shows nothing"
  exit 1
fi
for file in "$@"; do
  if [ "$(names "$file")" -ne 0 ]; then
    echo "$file has planted bugs"
    exit 1
  fi
done
