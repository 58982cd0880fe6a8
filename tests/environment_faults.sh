#!/usr/bin/env bash
# Faults of the machine under `tune`, drawn by a seed (environment_faults.py says which, and what must hold after each).
# 500 runs take about 20 minutes on 2 idle cores.
#
# usage: environment_faults.sh PROGRAMS [RUNS]
#   PROGRAMS   folder of `sparsmith`, its compiler and its emulator
#   RUNS       default: 500
# environment:
#   SPARSMITH_TEST_SEED   draws the same faults again
#   FAULT_KINDS           only these: "interrupt,kill_child"
#   FAULT_JOBS            runs at a time; default: 2
#   FAULT_HOGS            processes that only take CPU time beside them; default: 0
#   FAULT_SECONDS         after which a run hangs; default: 120
#   FAULT_ONLY            the number of one run, which is repeated RUNS times
#   FAULT_KEEP            a folder for the files, reports and stacks of what fails
set -euo pipefail

if (($# < 1 || $# > 2)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${CXX:-c++}" -O1 -shared -fPIC -o "$scratch/fault_shim.so" "$here/fault_shim.cc" -ldl
python3 "$here/environment_faults.py" "$(realpath "$1")" "$scratch" "${2:-500}"
