#!/usr/bin/env bash
# Measures two commits in turns on one machine, and fails with 5 where the second is slower.
#
# usage: perf_gate.sh BASE_COMMIT BASE_PROGRAM HEAD_COMMIT HEAD_PROGRAM            benchmarks of a project
#        perf_gate.sh BASE_COMMIT BASE_PROGRAM HEAD_COMMIT HEAD_PROGRAM SUITE      versions of sparsmith
#   BASE_PROGRAM, HEAD_PROGRAM   a program that uses Google Benchmark, as built from either commit; with a SUITE,
#                                `sparsmith` of either version, with its worker and its compiler beside it
#   SUITE                        as docs/guide/performance_history.md describes
# environment:
#   SPARSMITH     the program that records and compares; default: sparsmith, or with a SUITE HEAD_PROGRAM
#   PERF_ARGUMENTS   what a project's benchmark gets, such as the tuned file; words separated by blanks
#   PERF_DB       the performance history; default: perf.db
#   PERF_TURNS    of either commit, a round each; default: 15, which verdicts are made for
#   PERF_OUTPUT   folder for report.md, report.json and junit.xml; default: perf-report
#   PERF_BRANCH   the branch that HEAD_COMMIT is on, for `perf history`; default: none
set -euo pipefail

if (($# != 4 && $# != 5)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
base_commit=$1 base=$2 head_commit=$3 head=$4 suite=${5:-}
sparsmith=${SPARSMITH:-$([[ -n $suite ]] && echo "$head" || echo sparsmith)}
read -ra arguments <<<"${PERF_ARGUMENTS:-}"
db=${PERF_DB:-perf.db}
turns=${PERF_TURNS:-15}
output=${PERF_OUTPUT:-perf-report}
session=$(date -u +%Y%m%dT%H%M%SZ)-$$
mkdir -p "$output"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# only OPTION...: after `--cases FILE`, the filter of Google Benchmark for the names in the file.
only() {
  while (($# > 0)); do
    if [[ $1 == --cases ]]; then sed 's/[][(){}.*+?^$|\\]/\\&/g; s/.*/^&$/' "$2" | paste -sd '|'; fi
    shift
  done
}

# measure PROGRAM COMMIT SIDE OPTION...: one turn. With a suite each side tunes once, and keeps what it chose in a cache
# of its own.
measure() {
  local program=$1 commit=$2 side=$3 record
  shift 3
  if [[ -n $suite ]]; then
    record=("$program" perf record "$suite" --rounds 1 --cache "$scratch/$side.db")
  else
    "$program" "${arguments[@]}" --benchmark_out="$scratch/round.json" --benchmark_out_format=json \
      --benchmark_filter="$(only "$@")" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; return 1; }
    record=("$sparsmith" perf record --google-benchmark "$scratch/round.json")
  fi
  "${record[@]}" --db "$db" --commit "$commit" --session "$session" \
    --committed-at "$(git show -s --format=%cI "$commit" 2>/dev/null || date -u +%Y-%m-%dT%H:%M:%SZ)" "$@"
}

# Turn by turn, and the other one first every second time: a clock that drifts favours neither.
measure_both() {
  local turn
  for ((turn = 0; turn < turns; ++turn)); do
    if ((turn % 2 == 0)); then
      measure "$base" "$base_commit" base "$@"
      measure "$head" "$head_commit" head --branch "${PERF_BRANCH:-}" "$@"
    else
      measure "$head" "$head_commit" head --branch "${PERF_BRANCH:-}" "$@"
      measure "$base" "$base_commit" base "$@"
    fi
  done
}

compare=("$sparsmith" perf compare "$base_commit@$session" "$head_commit@$session" --db "$db")
measure_both
# What noise hides gets as many rounds more, until they suffice or there are 60; what looks changed is measured again.
for ((pass = 0; pass < 9; ++pass)); do
  "${compare[@]}" --suspects "$scratch/suspects.txt" --unsure "$scratch/unsure.txt"
  if [[ ! -s $scratch/suspects.txt && ! -s $scratch/unsure.txt ]]; then break; fi
  if [[ -s $scratch/unsure.txt ]]; then measure_both --cases "$scratch/unsure.txt"; fi
  if [[ -s $scratch/suspects.txt ]]; then measure_both --again --cases "$scratch/suspects.txt"; fi
done
"${compare[@]}" --json >"$output/report.json"
"${compare[@]}" --markdown --junit "$output/junit.xml" --fail-on slow | tee "$output/report.md"
