#!/usr/bin/env bash
# Whether a search outlives candidates that do not work, on a GPU: `tune` with every kernel as it should be, then with one
# in twenty broken in some way (tests/support/planted_faults.h), drawn anew by each seed and with a cache of its own, and what
# was chosen compared. Six runs, each meant to take less than a minute on an H200 with 16 cores; log.txt has the seconds.
#
# usage: fault_plants.sh PROGRAMS OUTPUT [MODEL]
#   PROGRAMS   `sparsmith`, its worker and its compiler, of a build with -DSPARSMITH_PLANTS=ON
#   OUTPUT     folder for what is chosen and printed
#   MODEL      a file of weights; default: three that are drawn, with 80 % zeros
# environment:
#   FAULTS_SEEDS         default: "0 1 2 3"; 0 breaks nothing, and shows what noise does
#   FAULTS_TOKENS        default: 1,8,64
#   FAULTS_CANDIDATES    default: 60
#   FAULTS_DEVICE        default: cuda:0. On the emulator choices are predicted, and little is tried
#   FAULTS_SIDES         of the weights that are drawn; default: "1024 2048 4096"
#   FAULTS_SECONDS       that a run may take; default: 300
#   SPARSMITH_PLANT_SHARE, SPARSMITH_PLANT_FAULTS     as the plant has them
#   SPARSMITH_PLANT_COMPILER_LIMIT                    seconds that the compiler may take for a kernel; default: 10
set -euo pipefail

if (($# != 2 && $# != 3)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
sparsmith=$(realpath "$1")/sparsmith
checks=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/fault_plants_check.py
mkdir -p "$2"
output=$(realpath "$2")
model=${3:+$(realpath "$3")}
seeds=${FAULTS_SEEDS:-0 1 2 3}
device=${FAULTS_DEVICE:-cuda:0}
export SPARSMITH_PLANT_COMPILER_LIMIT=${SPARSMITH_PLANT_COMPILER_LIMIT:-10}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$output"
rm -f -- *.json *.exit
: >log.txt

say() { printf '%4d s  %s\n' "$SECONDS" "$*" | tee -a log.txt; }

if [[ -z $model ]]; then
  model=$scratch/drawn.safetensors
  weights=()
  for side in ${FAULTS_SIDES:-1024 2048 4096}; do weights+=(--weight "w$side:${side}x$side:0.8:uniform"); done
  SPARSMITH_PLANT='' "$sparsmith" synth -o "$model" --dtype fp16 --seed 7 "${weights[@]}" >>log.txt 2>&1
fi

# tune NAME SEED CACHE OPTION...: with faults drawn by that seed; 0: with none. The exit code is kept, whatever it is.
tune() {
  local name=$1 seed=$2 cache=$3 plant='' code=0
  shift 3
  if ((seed > 0)); then plant=candidate_faults; fi
  SPARSMITH_PLANT=$plant SPARSMITH_PLANT_SEED=$seed timeout "${FAULTS_SECONDS:-300}" "$sparsmith" tune "$model" \
    -o "$scratch/$name.tuned.safetensors" --tokens "${FAULTS_TOKENS:-1,8,64}" --device "$device" --no-transfer \
    --candidates "${FAULTS_CANDIDATES:-60}" --cache "$scratch/$cache.db" --json "$@" >"$name.json" 2>"$name.log" ||
    code=$?
  echo "$code" >"$name.exit"
  say "$name: exit code $code"
}

tune plain 0 plain
first=
for seed in $seeds; do
  tune "seed_$seed" "$seed" "seed_$seed"
  if ((seed > 0)) && [[ -z $first ]]; then first=$seed; fi
done
# What was known of broken kernels is nobody else's: the sound ones are tried in their places.
if [[ -n $first ]]; then tune "behind_$first" 0 "seed_$first" --again; fi

python3 "$checks" "$output" "$device" | tee verdict.txt
say "done"
