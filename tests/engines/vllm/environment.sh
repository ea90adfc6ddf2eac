#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder of an environment with the real vLLM, and makes it where there is none for the
# present pins: PREFIX/bin/python has the main release, PREFIX/vllm-0.28 in PYTHONPATH the oldest.
#   KVSIDECAR_ENGINES_HOME   where environments lie (default: ~/.cache/kvsidecar)
# Exit code 3: it would have to be made, and the package index doesn't answer.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"
home=${KVSIDECAR_ENGINES_HOME:-$HOME/.cache/kvsidecar}
pins=$(cat requirements-*.txt ../stub_cuda_libs.py | sha256sum)
prefix=$home/vllm-${pins:0:12}
if [[ -e $prefix/complete ]]; then
  echo "$prefix"
  exit 0
fi

python=/usr/bin/python3 # another one that comes first in PATH may be of another version
work=$home/making.vllm.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$home"
"$python" -m venv "$work" >&2
pip=("$work/bin/python" -m pip --disable-pip-version-check -q)
if ! "${pip[@]}" download --no-deps -d "$work/probe" "$(grep '^idna==' requirements-0.32.txt)" \
  >"$work/probe.log" 2>&1; then
  tail -n 1 "$work/probe.log" >&2
  exit 3
fi
# Bytecode is made here, once: without it each start of an engine takes twice as long.
export PYTHONDONTWRITEBYTECODE=
site=$("$work/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# torch's own requirements are the CUDA libraries, which a CPU doesn't need: hence --no-deps.
rm -r "$work/probe" "$work/probe.log"
"${pip[@]}" install --no-deps -r requirements-0.32.txt >&2
"$python" ../stub_cuda_libs.py "$site" >&2
"${pip[@]}" install --no-deps --target "$work/vllm-0.28" -r requirements-0.28.txt >&2

check() {
  PYTHONPATH=$1 "$work/bin/python" - "$2" <<'CHECK' >&2
import sys
import torch
import vllm
from vllm import LLM
from vllm.distributed.kv_transfer.kv_connector.v1 import base
assert vllm.__version__.startswith(sys.argv[1] + "."), (vllm.__version__, vllm.__file__)
assert not torch.cuda.is_available() and hasattr(base, "KVConnectorBase_V1")
CHECK
}
check "" 0.32
check "$work/vllm-0.28" 0.28
touch "$work/complete"
# Somebody else may have been quicker; theirs is as good.
mv -T "$work" "$prefix" 2>/dev/null || [[ -e $prefix/complete ]]
echo "$prefix"
