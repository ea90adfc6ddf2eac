#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every fuzzer for SECONDS (default 600), at most two at once, over a copy of its corpus. Prints
# runs and coverage of each; what fails is left beside its log. Exit code: 0 when none failed.
#   run_long.sh [SECONDS] [TARGET…]
#   BUILD=…  a build of the preset asan (default: build/asan)
set -uo pipefail
here=$(dirname "$(readlink -f "$0")")
programs=$(readlink -f "${BUILD:-$here/../../build/asan}")/tests/fuzz
seconds=${1:-600}
shift || true
targets=("$@")
if ((${#targets[@]} == 0)); then
  for program in "$programs"/*_fuzz; do targets+=("$(basename "$program")"); done
fi
[[ -x $programs/${targets[0]} ]] || {
  echo "run_long.sh: no fuzzers in $programs; build the preset asan, or set BUILD" >&2
  exit 2
}
work=$(mktemp -d "${TMPDIR:-/tmp}/kvsidecar-fuzz-long-XXXXXX")

run() {
  local target=$1 corpus=$work/$1.corpus log=$work/$1.log rc=0
  mkdir -p "$corpus"
  cp "$here/corpus/$target"/* "$corpus" 2>/dev/null
  "$programs/$target" "$corpus" -max_total_time="$seconds" -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$work/$target-" >"$log" 2>&1 || rc=$?
  printf '%-18s %s  %s runs, %s\n' "$target" "$( ((rc == 0)) && echo ok || echo "FAILED ($rc)")" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
    "$(grep -o 'cov: [0-9]* ft: [0-9]*' "$log" | tail -n 1)"
  return "$rc"
}

failed=0
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= 2)); do wait -n || failed=1; done
  run "$target" &
done
while (($(jobs -p | wc -l) > 0)); do wait -n || failed=1; done
if ((failed)); then
  echo "inputs and logs: $work"
else
  rm -rf "$work"
fi
exit "$failed"
