#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder with the reader that requirements.txt pins, and makes it where there is none for
# the present pins: a folder for PYTHONPATH of Debian's python.
#   KVSIDECAR_ENGINES_HOME   where environments lie (default: ~/.cache/kvsidecar)
# Exit code 3: it would have to be made, and the package index doesn't answer.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
home=${KVSIDECAR_ENGINES_HOME:-$HOME/.cache/kvsidecar}
pins=$(sha256sum <requirements.txt)
prefix=$home/usrbio-${pins:0:12}

answer() {
  echo "$prefix"
  exit 0
}
[[ -e $prefix/complete ]] && answer

mkdir -p "$home"
exec {lock}>"$home/usrbio.lock"
flock "$lock"
[[ -e $prefix/complete ]] && answer
rm -rf "$prefix"
mkdir "$prefix"
trap '[[ -e $prefix/complete ]] || rm -rf "$prefix"' EXIT

pip=(/usr/bin/python3 -m pip --disable-pip-version-check -q)
if ! "${pip[@]}" download --no-deps --require-hashes -r requirements.txt -d "$prefix/wheels" \
  >"$prefix/probe.log" 2>&1; then
  tail -n 1 "$prefix/probe.log" >&2
  exit 3
fi
"${pip[@]}" install --no-deps --no-index --find-links "$prefix/wheels" --require-hashes \
  -r requirements.txt --target "$prefix" >&2
rm -r "$prefix/wheels" "$prefix/probe.log"
touch "$prefix/complete"
answer
