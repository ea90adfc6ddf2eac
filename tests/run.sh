#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that is tested, in one run: installs what it needs, builds, and runs the sanitizer
# builds, the release build's tests and the Python tests. Every stage shows its time; a failed one
# doesn't stop the others. Skipped tests are counted and named. Exit code: 0 when all passed.
#   JOBS=n         processes for building and testing (default: all cores)
#   STAGES="…"     only these of: release packages asan tsan ctest pytest (default: all)
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
jobs=${JOBS:-$(nproc)}
stages=${STAGES:-release packages asan tsan ctest pytest}
logs=$PWD/build/test-logs
mkdir -p "$logs"
failed=()
times=()

stage() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n=== %s\n' "$name"
  if "$@"; then
    printf -- '=== %s: passed in %d s\n' "$name" $((SECONDS - begin))
  else
    printf -- '=== %s: FAILED after %d s\n' "$name" $((SECONDS - begin))
    failed+=("$name")
  fi
  times+=("$(printf '%5d s  %s' $((SECONDS - begin)) "$name")")
}

build_preset() {
  local log=$logs/$1-configure.log
  cmake --preset "$1" -DKVSIDECAR_TESTS=ON >"$log" 2>&1 || { cat "$log"; return 1; }
  cmake --build --preset "$1" -j "$jobs" -- --quiet
}

# From the release build, for the package tests: they would make a build of their own.
build_packages() {
  local log=$logs/packages.log
  JOBS=$jobs BUILD=build/release packaging/build-packages.sh build/dist >"$log" 2>&1 ||
    { tail -n 50 "$log"; return 1; }
  export KVSIDECAR_PACKAGES=$PWD/build/dist
}

# The unit, conformance and simulator tests under a sanitizer. TSAN's runtime can't place its
# shadow where the kernel randomizes too many bits of addresses.
sanitized() {
  local preset=$1 run=()
  build_preset "$preset" || return 1
  if [[ $preset == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then
    run=(setarch "$(uname -m)" -R)
  fi
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 \
    UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=second_deadlock_stack=1 \
    "${run[@]}" ctest --test-dir "build/$preset" -L '^(unit|conformance|sim|fuzz)$' -j "$jobs" \
    --output-on-failure 2>&1 | tee "$logs/$preset.log" | grep -vE '^ +Start |   Passed '
  return "${PIPESTATUS[0]}"
}

run_ctest() {
  ctest --test-dir build/release -LE '^(python|style)$' -j "$jobs" --output-on-failure 2>&1 |
    tee "$logs/ctest.log"
  return "${PIPESTATUS[0]}"
}

# Debian's interpreter: another one that comes first in PATH may have no pytest.
run_pytest() {
  local folders=() folder
  for folder in tests/python tests/style; do
    compgen -G "$folder/test_*.py" >/dev/null && folders+=("$folder")
  done
  KVSIDECAR_BUILD=$PWD/build/release PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=$PWD/clients/python${PYTHONPATH:+:$PYTHONPATH} \
    /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider "${folders[@]}" 2>&1 |
    tee "$logs/pytest.log"
  return "${PIPESTATUS[0]}"
}

# GoogleTest's and pytest's skips are inside a ctest entry that passed; ctest's own and those of the
# pytest stage stand in logs.
show_skips() {
  local inside=build/release/Testing/Temporary/LastTest.log names
  names=$(
    {
      [[ -f $inside ]] && sed -n -e 's/^\[  SKIPPED \] \([A-Za-z0-9_]*\.[^ ,]*\).*/\1/p' \
        -e 's/^SKIPPED \[[0-9]*\] //p' "$inside"
      sed -n 's/.*[0-9] - \([^ ]*\) (\(Skipped\|Not Run\|Disabled\)).*/\1/p' "$logs/ctest.log"
      sed -n 's/^SKIPPED \[[0-9]*\] //p' "$logs/pytest.log"
    } 2>/dev/null | sort -u
  )
  if [[ -z $names ]]; then
    echo "skipped: none"
  else
    printf 'skipped: %d\n%s\n' "$(wc -l <<<"$names")" "$(sed 's/^/  /' <<<"$names")"
  fi
}

rm -f "$logs"/*.log
stage dependencies packaging/dependencies.sh
for name in $stages; do
  case $name in
    release) stage "release build" build_preset release ;;
    packages) stage "deb and rpm" build_packages ;;
    asan) stage "ASAN+UBSAN: unit, conformance, sim, fuzz" sanitized asan ;;
    tsan) stage "TSAN: unit, conformance, sim" sanitized tsan ;;
    ctest) stage "ctest: all of the release build" run_ctest ;;
    pytest) stage "pytest: Python client and style" run_pytest ;;
    *) echo "run.sh: no stage is called '$name'" >&2 && exit 2 ;;
  esac
done

printf '\n=== all stages\n'
printf '%s\n' "${times[@]}"
show_skips
((${#failed[@]})) && printf 'FAILED: %s\n' "${failed[@]}"
[[ -f $logs/ctest.log ]] && grep -E '^[0-9]+% tests passed' "$logs/ctest.log"
[[ -f $logs/pytest.log ]] && tail -n 1 "$logs/pytest.log"
((${#failed[@]} == 0))
