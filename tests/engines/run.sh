#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The real engines against the real daemon, without a GPU.
#   run.sh                     every engine
#   run.sh vllm [ARGUMENT…]    one; arguments go to pytest
#   run.sh vllm bench [ARGUMENT…]   figures instead of tests
#   KVSIDECAR_BUILD            folder of a release build (default: build/release)
#   KVSIDECAR_ENGINES_HOME     where their packages are kept (default: ~/.cache/kvsidecar)
# An engine whose packages would have to be fetched while the package index doesn't answer is
# skipped, which is said. Exit code: 0 when everything that ran has passed.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")"
root=$(cd ../.. && pwd)
export KVSIDECAR_BUILD=${KVSIDECAR_BUILD:-$root/build/release}
logs=$root/build/test-logs
mkdir -p "$logs"

vllm() {
  local begin=$SECONDS prefix code
  prefix=$(vllm/environment.sh 2>"$logs/vllm-environment.log")
  code=$?
  if ((code == 3)); then
    echo "engines: vllm SKIPPED: its packages aren't here and the package index doesn't answer"
    return 0
  elif ((code)); then
    tail -n 40 "$logs/vllm-environment.log"
    return 1
  fi
  echo "engines: vllm's environment is $prefix ($((SECONDS - begin)) s)"
  begin=$SECONDS
  local models
  models=$prefix/models-$(sha256sum vllm/models.py | cut -c -12)
  "$prefix/bin/python" vllm/models.py "$models" >"$logs/vllm-models.log" 2>&1 ||
    { tail -n 40 "$logs/vllm-models.log"; return 1; }
  export KVSIDECAR_VLLM=$prefix KVSIDECAR_MODELS=$models
  local failed=0 library
  library=$(find "$KVSIDECAR_BUILD" -name 'libkvsidecar-client.so.0' -print -quit)
  if (($# == 0)) && compgen -G "vllm/unit/test_*.py" >/dev/null; then
    for release in "" "$prefix/vllm-0.28"; do
      PYTHONPATH=$release:$root/clients/python KVSIDECAR_LIBRARY=$library \
        PYTHONDONTWRITEBYTECODE='' \
        "$prefix/bin/python" -m pytest -q -p no:cacheprovider vllm/unit 2>&1 |
        tee "$logs/vllm-unit.log"
      ((PIPESTATUS[0] == 0)) || failed=1
    done
  fi
  if [[ ${1:-} == bench ]]; then
    /usr/bin/python3 vllm/bench_connector.py "${@:2}"
    return
  fi
  local given=0 argument
  for argument in "$@"; do [[ -e $argument ]] && given=1; done
  ((given)) || set -- vllm "$@"
  nice -n 5 /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider "$@" \
    --ignore vllm/unit --durations 8 2>&1 | tee "$logs/vllm.log"
  ((PIPESTATUS[0] == 0)) || failed=1
  echo "engines: vllm took $((SECONDS - begin)) s"
  return $failed
}

engine=${1:-all}
(($#)) && shift
case $engine in
  all | vllm) vllm "$@" ;;
  *) echo "run.sh: no engine is called '$engine'; there is vllm" >&2 && exit 2 ;;
esac
