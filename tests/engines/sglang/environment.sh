#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder of an environment with the real SGLang, and makes it where there is none for the
# present pins. PREFIX/bin/python needs what variables.sh sets.
#   KVSIDECAR_ENGINES_HOME   where environments lie (default: ~/.cache/kvsidecar)
# Exit code 3: it would have to be made, and the package index doesn't answer.
# Needs g++, ninja and OpenSSL's headers: SGLang compiles its hash of pages.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
home=${KVSIDECAR_ENGINES_HOME:-$HOME/.cache/kvsidecar}
pins=$(cat requirements.txt ../stub_cuda_libs.py | sha256sum)
prefix=$home/sglang-${pins:0:12}

answer() {
  echo "$prefix"
  exit 0
}
[[ -e $prefix/complete ]] && answer

# One at a time makes it, in its place: what is compiled knows its own path. Nothing without the
# file "complete" is ever used.
mkdir -p "$home"
exec {lock}>"$home/sglang.lock"
flock "$lock"
[[ -e $prefix/complete ]] && answer
rm -rf "$prefix"
trap '[[ -e $prefix/complete ]] || rm -rf "$prefix"' EXIT

/usr/bin/python3 -m venv "$prefix" >&2 # another python that comes first in PATH may be newer
pip=("$prefix/bin/python" -m pip --disable-pip-version-check -q)
if ! "${pip[@]}" download --no-deps -d "$prefix/probe" "$(grep '^idna==' requirements.txt)" \
  >"$prefix/probe.log" 2>&1; then
  tail -n 1 "$prefix/probe.log" >&2
  exit 3
fi
rm -r "$prefix/probe" "$prefix/probe.log"
# Bytecode is made here, once: without it each start of an engine takes twice as long.
export PYTHONDONTWRITEBYTECODE=
# torch's own requirements are the CUDA libraries, which a CPU doesn't need: hence --no-deps.
"${pip[@]}" install --no-deps -r requirements.txt >&2
site=$("$prefix/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
/usr/bin/python3 ../stub_cuda_libs.py "$site" >&2

. ./variables.sh
"$prefix/bin/python" - <<'CHECK' >&2
import sglang
import torch
import sglang.srt.entrypoints.engine
import sglang.srt.managers.scheduler
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.cpp_utils.native_hash import get_native_hash
assert sglang.__version__.startswith("0.5.23"), (sglang.__version__, sglang.__file__)
assert not torch.cuda.is_available() and HiCacheController
assert len(get_native_hash(list(range(64)), None)) == 64
CHECK
touch "$prefix/complete"
answer
