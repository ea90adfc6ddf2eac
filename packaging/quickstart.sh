#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 and a clean clone to a replay: installs what is missing, builds daemon and
# command line, then replays a request trace through a daemon in a temporary directory, which is
# killed and started again in the middle. The last line says PASSED or FAILED and what was seen; the
# exit code is the replay's.
#   JOBS=n                  build with n processes (default: all cores)
#   KVSIDECAR_TRACE=FILE    replay this trace (Mooncake's format) instead of a generated one
# Arguments go to `kvsidecar replay`, e.g. --requests 8000 or --json.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
jobs=${JOBS:-$(nproc)}
build=build/release
say() { printf 'quickstart: %s\n' "$*" >&2; }

packaging/dependencies.sh build >&2

say "building with $jobs jobs"
begin=$SECONDS
if [[ ! -f $build/build.ninja ]]; then
  cmake --preset release -DKVSIDECAR_TESTS=OFF >/dev/null
fi
cmake --build "$build" -j "$jobs" --target kvsidecard kvsidecar >&2
say "built in $((SECONDS - begin)) s"
daemon=$(find "$PWD/$build" -type f -name kvsidecard -perm -u+x -print -quit)
tool=$(find "$PWD/$build" -type f -name kvsidecar -perm -u+x -print -quit)

work=$(mktemp -d "${TMPDIR:-/tmp}/kvsidecar-quickstart.XXXXXX")
pool=quickstart-$$
cleanup() {
  local code=$?
  if ((code != 0)) && [[ -f $work/kvsidecar.toml.log ]]; then
    say "the daemon's last lines:"
    tail -n 20 "$work/kvsidecar.toml.log" >&2
  fi
  rm -rf "$work" "/dev/shm/kvsidecar.$pool."*
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# A quarter of a gigabyte shows both: hits in memory and pages that only the store still has.
# Containers often have a smaller /dev/shm.
free_mib=$(df --output=avail -B1M /dev/shm | tail -n 1)
pool_mib=256
while ((pool_mib + 16 > free_mib && pool_mib > 16)); do ((pool_mib /= 2)); done
if ((pool_mib + 16 > free_mib)); then
  say "/dev/shm has $free_mib MiB free, a replay needs 32; give the container --shm-size=512m"
  exit 2
fi

mkdir -p "$work/run" "$work/state" "$work/store"
cat >"$work/kvsidecar.toml" <<EOF
[daemon]
runtime_dir = "$work/run"
socket = "$work/run/kvsidecar.sock"
state_dir = "$work/state"

[host_pool]
bytes = "${pool_mib}MiB"
chunk_bytes = "16MiB"
span_bytes = "4MiB"
name = "$pool"

[store]
kind = "file"
root = "$work/store"
capacity_bytes = "1GiB"
segment_bytes = "16MiB"

[metrics]
listen = ""

[[allow]]
uid = $(id -u)
permissions = ["read", "put", "clear", "admin"]
EOF
"$daemon" --config "$work/kvsidecar.toml" --check-config >&2

say "host pool $pool_mib MiB, store $work/store; the daemon is killed in the middle"
defaults=()
[[ " $* " == *" --requests"* ]] || defaults+=(--requests 12000)
[[ " $* " == *" --page-bytes"* ]] || defaults+=(--page-bytes 16384)
"$tool" replay --daemon "$daemon" --config "$work/kvsidecar.toml" "${defaults[@]}" "$@"
