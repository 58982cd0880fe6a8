#!/usr/bin/env bash
# Fuzzes every parser with libFuzzer under the address and undefined-behaviour sanitizers. Builds the targets once, with
# clang-19, runs each for its share of the time, one on each core, and prints what each found.
#
# usage: tests/fuzz/run_all.sh SECONDS [TARGET...]      SECONDS: for all together; TARGET: fuzz_smtx; default: every one
#   FUZZ_OUTPUT=out/fuzz     corpus and findings; a later run begins with the corpus
#   JOBS=N                   targets at a time; default: one on each core
#
# Exit status 1 where an input breaks a target: the input lies in FUZZ_OUTPUT/findings, and its command is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if (($# < 1)) || [[ ! $1 =~ ^[0-9]+$ ]]; then
  sed -n 's/^# usage: /usage: /p' "$0" >&2
  exit 2
fi
seconds=$1
shift
output=$(realpath -m "${FUZZ_OUTPUT:-out/fuzz}")
jobs=${JOBS:-$(nproc)}
build=$PWD/build/fuzz
mkdir -p "$output"

if ! clang++-19 -fsanitize=fuzzer,address -x c++ - -o "$output/probe" 2>"$output/probe.log" \
  <<<'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }'; then
  echo "fuzz: clang-19 cannot link libFuzzer; install it: apt-get install clang-19 libclang-rt-19-dev" >&2
  cat "$output/probe.log" >&2
  exit 1
fi

# Little optimisation: a third of the time to build, and nearly as fast under the sanitizers.
flags="-O1 -gline-tables-only"
CCACHE_BASEDIR=$PWD cmake -S . -B "$build" -G Ninja -DSPARSMITH_FUZZ=ON -DSPARSMITH_LLVM=OFF -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" \
  >"$output/configure.log" || { cat "$output/configure.log" >&2; exit 1; }
targets=("$@")
if ((${#targets[@]} == 0)); then mapfile -t targets < <(cut -f 1 "$build/fuzz_targets.txt"); fi
CCACHE_BASEDIR=$PWD ninja -C "$build" -j"$jobs" "${targets[@]}" draw_packed_seeds draw_seeds >"$output/build.log" ||
  { tail -n 40 "$output/build.log" >&2; exit 1; }
"$build/bin/draw_packed_seeds" "$build/tests/fuzz/seeds"
"$build/bin/draw_seeds" "$build/tests/fuzz/drawn"

at_a_time=$((jobs < ${#targets[@]} ? jobs : ${#targets[@]}))
share=$((seconds * at_a_time / ${#targets[@]}))
if ((share < 1)); then share=1; fi
echo "fuzz: ${#targets[@]} targets, $at_a_time at a time, $share s each; corpus in $output/corpus"
rm -rf "$output/results"
mkdir -p "$output/results"
printf '%s\0' "${targets[@]}" |
  xargs -0 -n 1 -P "$at_a_time" python3 tests/fuzz/run_target.py "$build" "$output" "$share" || true
python3 tests/fuzz/run_target.py --summary "$build" "$output" "${targets[@]}"
