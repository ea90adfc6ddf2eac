#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The real engines against the real daemon, without a GPU.
#   run.sh                     every engine
#   run.sh vllm [ARGUMENT…]    one; arguments go to pytest
#   run.sh sglang [ARGUMENT…]  likewise
#   run.sh usrbio [ARGUMENT…]  programs for 3FS's C interface, on our client of its protocol
#   run.sh vllm bench [ARGUMENT…], run.sh sglang bench [ARGUMENT…]   figures instead of tests
#   KVSIDECAR_BUILD            folder of a release build (default: build/release)
#   KVSIDECAR_ENGINES_HOME     where their packages are kept (default: ~/.cache/kvsidecar)
#   KVSIDECAR_USRBIO_LIBRARY, KVSIDECAR_USRBIO_MOUNT
#                              usrbio on 3FS's own library, on a mount (default: ours, on a mini3fs)
# What fails and then passes alone is named UNSTEADY.
# An engine whose packages would have to be fetched while the package index doesn't answer is
# skipped, which is said. Exit code: 0 when everything that ran has passed.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")"
root=$(cd ../.. && pwd)
export KVSIDECAR_BUILD=${KVSIDECAR_BUILD:-$root/build/release}
logs=$root/build/test-logs
mkdir -p "$logs"

# NAME COMMAND…: pytest. Two engines at a time and their daemons share two cores, and some steps of
# theirs have deadlines: what failed runs once more, alone. What passes then is named, not counted.
tested() {
  local name=$1 cache=$logs/cache-$1 code
  shift
  rm -rf "$cache"
  "$@" -q -rsfE -o cache_dir="$cache" 2>&1 | tee "$logs/$name.log"
  code=${PIPESTATUS[0]}
  ((code == 1)) || return "$code"
  "$@" -q -o cache_dir="$cache" --last-failed --last-failed-no-failures none 2>&1 |
    tee "$logs/$name-again.log"
  code=${PIPESTATUS[0]}
  ((code)) || sed -n "s/^\(FAILED\|ERROR\) \([^ ]*\).*/engines: UNSTEADY: \2/p" "$logs/$name.log"
  return "$code"
}

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
  local models measured=()
  models=$prefix/models-$(sha256sum vllm/models.py | cut -c -12)
  [[ ${1:-} == bench ]] && measured=(llama llama-large)
  "$prefix/bin/python" vllm/models.py "$models" "${measured[@]}" >"$logs/vllm-models.log" 2>&1 ||
    { tail -n 40 "$logs/vllm-models.log"; return 1; }
  export KVSIDECAR_VLLM=$prefix KVSIDECAR_MODELS=$models
  if [[ ${1:-} == bench ]]; then
    /usr/bin/python3 vllm/bench_connector.py "${@:2}"
    return
  fi
  KVSIDECAR_LIBRARY=$(find "$KVSIDECAR_BUILD" -name 'libkvsidecar-client.so.0' -print -quit)
  export KVSIDECAR_LIBRARY
  if (($#)); then
    vllm_engines given "$@"
  else
    vllm_all
  fi
  code=$?
  echo "engines: vllm took $((SECONDS - begin)) s"
  return $code
}

# Two processes at a time: an engine of the tests has one thread.
vllm_all() {
  local failed=0 first=() second=() file
  for file in vllm/test_*.py; do
    case $file in
      *_outputs.py | *_requests.py | *_company.py | *_start.py | *_ranks.py) first+=("$file") ;;
      *) second+=("$file") ;;
    esac
  done
  vllm_half 0.32 "" "${first[@]}" >"$logs/vllm-first.out" 2>&1 &
  vllm_half 0.28 "$KVSIDECAR_VLLM/vllm-0.28" "${second[@]}" >"$logs/vllm-second.out" 2>&1 &
  wait -n || failed=1
  wait -n || failed=1
  cat "$logs/vllm-first.out" "$logs/vllm-second.out"
  return $failed
}

# RELEASE PACKAGES FILE…: units of that release, then these files.
vllm_half() {
  local failed=0
  vllm_units "$1" "$2" || failed=1
  vllm_engines "beside-$1" "${@:3}" || failed=1
  return $failed
}

# NAME ARGUMENT…: Debian's pytest tells engines in processes of their own what to do.
vllm_engines() {
  local name=$1 given=0 argument
  shift
  for argument in "$@"; do [[ -e ${argument%%::*} ]] && given=1; done
  ((given)) || set -- vllm "$@"
  tested "vllm-$name" nice -n 5 /usr/bin/python3 -m pytest "$@" --ignore vllm/unit --durations 8
}

# RELEASE PACKAGES: what needs vLLM's classes and no engine, inside the environment itself.
vllm_units() {
  compgen -G "vllm/unit/test_*.py" >/dev/null || return 0
  PYTHONPATH=${2:+$2:}$root/clients/python PYTHONDONTWRITEBYTECODE='' \
    tested "vllm-unit-$1" nice -n 5 "$KVSIDECAR_VLLM/bin/python" -m pytest vllm/unit
}

# pytest is the environment's own: SGLang's controllers work in its process. Engines are forked from
# a second one, which imports meanwhile.
sglang() {
  local begin=$SECONDS prefix code given=0 argument
  prefix=$(sglang/environment.sh 2>"$logs/sglang-environment.log")
  code=$?
  if ((code == 3)); then
    echo "engines: sglang SKIPPED: its packages aren't here and the package index doesn't answer"
    return 0
  elif ((code)); then
    tail -n 40 "$logs/sglang-environment.log"
    return 1
  fi
  echo "engines: sglang's environment is $prefix ($((SECONDS - begin)) s)"
  begin=$SECONDS
  (
    . sglang/variables.sh
    [[ ${1:-} == bench ]] && exec "$prefix/bin/python" sglang/bench_hicache.py "${@:2}"
    export KVSIDECAR_LOGS=$logs KVSIDECAR_MODELS
    KVSIDECAR_MODELS=$prefix/models-$(sha256sum sglang/models.py | cut -c -12)
    "$prefix/bin/python" sglang/models.py "$KVSIDECAR_MODELS" >"$logs/sglang-models.log" 2>&1 ||
      { tail -n 40 "$logs/sglang-models.log"; exit 1; }
    KVSIDECAR_LIBRARY=$(find "$KVSIDECAR_BUILD" -name 'libkvsidecar-client.so.0' -print -quit)
    export KVSIDECAR_LIBRARY
    for argument in "$@"; do [[ -e ${argument%%::*} ]] && given=1; done
    ((given)) || set -- sglang "$@"
    tested sglang nice -n 5 "$prefix/bin/python" -m pytest --disable-warnings "$@" --durations 8
  )
  code=$?
  [[ ${1:-} == bench ]] && return $code
  echo "engines: sglang took $((SECONDS - begin)) s"
  return $code
}

# A compiled reader in Debian's python, and SGLang's client in SGLang's environment.
usrbio() {
  local begin=$SECONDS prefix code failed=0
  KVSIDECAR_MINI3FS=$(find "$KVSIDECAR_BUILD" -type f -name mini3fs -print -quit)
  local ours=$KVSIDECAR_BUILD/tests/usrbio/shared_builtin/libhf3fs_api_shared.so
  export KVSIDECAR_MINI3FS KVSIDECAR_USRBIO_LIBRARY=${KVSIDECAR_USRBIO_LIBRARY:-$ours}
  if [[ -z $KVSIDECAR_MINI3FS && -z ${KVSIDECAR_USRBIO_MOUNT:-} ]]; then
    echo "engines: usrbio SKIPPED: mini3fs isn't built (libfuse3-dev), and no mount is named"
    return 0
  elif [[ -z ${KVSIDECAR_USRBIO_MOUNT:-} && ($EUID != 0 || ! -e /dev/fuse) ]]; then
    echo "engines: usrbio SKIPPED: mini3fs needs root and /dev/fuse"
    return 0
  fi
  prefix=$(usrbio/environment.sh 2>"$logs/usrbio-environment.log")
  code=$?
  if ((code == 3)); then
    echo "engines: usrbio's reader SKIPPED: it isn't here and the package index doesn't answer"
  elif ((code)); then
    tail -n 40 "$logs/usrbio-environment.log"
    failed=1
  else
    usrbio_tested reader "$prefix" /usr/bin/python3 usrbio/test_fastsafetensor.py "$@" || failed=1
  fi
  prefix=$(sglang/environment.sh 2>"$logs/sglang-environment.log")
  code=$?
  if ((code == 3)); then
    echo "engines: usrbio's SGLang SKIPPED: it isn't here and the package index doesn't answer"
  elif ((code)); then
    tail -n 40 "$logs/sglang-environment.log"
    failed=1
  else
    (
      . sglang/variables.sh
      usrbio_tested sglang "$PYTHONPATH" "$prefix/bin/python" usrbio/test_sglang_client.py "$@"
    ) || failed=1
  fi
  echo "engines: usrbio took $((SECONDS - begin)) s"
  return $failed
}

# NAME PYTHONPATH PYTHON ARGUMENT…: compiled programs look for the library by its name.
usrbio_tested() {
  PYTHONPATH=$PWD/usrbio:$2 PYTHONDONTWRITEBYTECODE=1 \
    LD_LIBRARY_PATH=$(dirname "$KVSIDECAR_USRBIO_LIBRARY")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    tested "usrbio-$1" nice -n 5 "$3" -m pytest --disable-warnings "${@:4}"
}

engine=${1:-all}
(($#)) && shift
case $engine in
  all)
    failed=0
    vllm "$@" || failed=1
    sglang "$@" || failed=1
    usrbio "$@" || failed=1
    exit $failed
    ;;
  vllm) vllm "$@" ;;
  sglang) sglang "$@" ;;
  usrbio) usrbio "$@" ;;
  *) echo "run.sh: no engine is called '$engine'; there are vllm, sglang, usrbio" >&2 && exit 2 ;;
esac
