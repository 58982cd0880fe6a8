#!/usr/bin/env bash
# Builds the benchmark of a project that uses CMake from two of its commits, and compares them with perf_gate.sh. Run in
# a clone of the project, on a machine with a GPU that does nothing else meanwhile. Needs no root.
#
# usage: compare_commits.sh BASE HEAD       exit code 5: HEAD is slower
# environment:
#   SPARSMITH_TREE   the installed tree of sparsmith; default: ~/sparsmith
#   PERF_TARGET      the benchmark's target in CMake, and its program in the build folder; default: layer_benchmark
#   PERF_SOURCE      the folder of the CMakeLists.txt; default: .
#   and those of perf_gate.sh, above all PERF_ARGUMENTS and PERF_DB
set -euo pipefail

if (($# != 2)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tree=${SPARSMITH_TREE:-$HOME/sparsmith}
target=${PERF_TARGET:-layer_benchmark}
export SPARSMITH=${SPARSMITH:-$tree/bin/sparsmith}
work=$(mktemp -d)
trap 'rm -rf "$work"; git worktree prune' EXIT

commits=()
for side in base head; do
  commits+=("$(git rev-parse --verify --quiet "$1^{commit}")") || { echo "no commit $1" >&2; exit 1; }
  git worktree add --quiet --detach "$work/$side" "${commits[-1]}"
  cmake -S "$work/$side/${PERF_SOURCE:-.}" -B "$work/build-$side" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$tree" >"$work/log" || { cat "$work/log" >&2; exit 1; }
  cmake --build "$work/build-$side" --target "$target" --parallel >"$work/log" || { cat "$work/log" >&2; exit 1; }
  shift
done
"$(dirname "${BASH_SOURCE[0]}")/perf_gate.sh" "${commits[0]}" "$work/build-base/$target" \
  "${commits[1]}" "$work/build-head/$target"
