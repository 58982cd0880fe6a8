#!/usr/bin/env bash
# Whether the performance history finds what is planted, on a GPU: the same build measured twice, a snippet made slower,
# a packer's schedule made worse, a cost model made wrong. About two minutes on one H200.
#
# usage: perf_plants.sh PROGRAMS OUTPUT
#   PROGRAMS   `sparsmith`, its worker and its compiler, of a build with -DSPARSMITH_PLANTS=ON
#   OUTPUT     folder for the history, the comparisons and what is printed
# environment:
#   PLANTS_ROUNDS, PLANTS_TURNS   rounds of a turn, and turns of either side; default: 2 and 3
set -euo pipefail

if (($# != 2)); then
  sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
sparsmith=$(realpath "$1")/sparsmith
checks=$(realpath "$(dirname "${BASH_SOURCE[0]}")")/perf_plants_check.py
mkdir -p "$2"
output=$(realpath "$2")
rounds=${PLANTS_ROUNDS:-2}
turns=${PLANTS_TURNS:-3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$output"
rm -f perf.db perf.db-wal perf.db-shm
: >log.txt

say() { printf '%4d s  %s\n' "$SECONDS" "$*" | tee -a log.txt; }

# with PLANT COMMAND...: the program with that plant; "plain": with none.
with() {
  local plant=$1
  shift
  if [[ $plant == plain* ]]; then plant=; fi
  SPARSMITH_PLANT=$plant "$sparsmith" "$@"
}

# Six weights whose choices on an H200 are of the families slots, panel, scatter, gather and bitmap.
tokens=1,8,32
with plain synth -o "$scratch/plants.safetensors" --dtype fp16 --seed 7 --weight uniform98:4096x4096:0.98:uniform \
  --weight lognormal95:4096x4096:0.95:lognormal:0.5 --weight power90:4096x4096:0.9:power:1 \
  --weight uniform60:4096x4096:0.6:uniform --weight wide995:4096x8192:0.995:lognormal:0.5 \
  --weight small95:2048x2048:0.95:uniform >>log.txt 2>&1
cat >"$scratch/suite.json" <<JSON
{"name": "plants", "rounds": $rounds, "repetitions": 15, "devices": "cuda:0",
 "weights": [{"file": "plants.safetensors", "tokens": [$tokens]}]}
JSON
# The search with a wrong cost model is made for two weights: it has nothing to share with the plain one.
printf '%s\n' {uniform98,small95}" N="{1,8,32} >"$scratch/cost_model.cases"

tune() {  # PLANT OPTION...
  local plant=$1
  shift
  with "$plant" tune "$scratch/plants.safetensors" -o "$scratch/$plant.tuned.safetensors" --tokens "$tokens" \
    --device cuda:0 --candidates 16 --cache "$scratch/$plant.db" "$@" >"tune_$plant.txt" 2>&1 ||
    { cat "tune_$plant.txt" && exit 1; }
}
tune plain
say "tuned"
tune cost_model --include uniform98 --include small95
say "tuned with the wrong cost model"
# What the plain build chose is measured in all others as well: kernel against kernel, packing against packing.
for side in plain_again slow_snippet bank_schedule; do cp "$scratch/plain.db" "$scratch/$side.db"; done

# measure SIDE OPTION...: one turn.
measure() {
  local side=$1 options=()
  shift
  if [[ $side == slow_snippet || $side == bank_schedule ]]; then options=(--keep-choices); fi
  if [[ -e $scratch/$side.cases ]]; then options+=(--cases "$scratch/$side.cases"); fi
  with "$side" perf record "$scratch/suite.json" --db perf.db --commit "$side" --session plants \
    --cache "$scratch/$side.db" "${options[@]}" "$@" >>log.txt 2>&1 || { tail -20 log.txt && exit 1; }
}

# take_turns SIDE...: with the options in `with_options`; every second turn the other way round.
with_options=()
take_turns() {
  local turn i sides=("$@")
  for ((turn = 0; turn < turns; ++turn)); do
    for ((i = 0; i < $#; ++i)); do
      measure "${sides[turn % 2 == 0 ? i : $# - 1 - i]}" "${with_options[@]}"
    done
    say "turn $((turn + 1)) of $turns: $*"
  done
}

heads=(plain_again slow_snippet bank_schedule cost_model)
take_turns plain "${heads[@]}"

# What looks changed is measured again: each head's own suspects, and all of them in the base.
suspected=()
for head in "${heads[@]}"; do
  with plain perf compare plain "$head" --db perf.db --suspects "$scratch/$head.suspects" >"first_$head.txt"
  if [[ -s $scratch/$head.suspects ]]; then
    suspected+=("$head")
    mv "$scratch/$head.suspects" "$scratch/$head.cases"
    cat "$scratch/$head.cases" >>"$scratch/all"
  fi
done
if ((${#suspected[@]} > 0)); then
  sort -u "$scratch/all" >"$scratch/plain.cases"
  with_options=(--again)
  take_turns plain "${suspected[@]}"
fi

for head in "${heads[@]}"; do
  for on in slow kernel; do
    code=0
    with plain perf compare plain "$head" --db perf.db --all --fail-on "$on" >"$head.txt" || code=$?
    echo "$code" >"$head.fail_on_$on"
  done
  with plain perf compare plain "$head" --db perf.db --json >"$head.json"
  say "$head: $(head -1 "$head.txt")"
done
if command -v python3 >/dev/null; then
  python3 "$checks" "$output" | tee verdict.txt
else
  echo "no python3 here: elsewhere, perf_plants_check.py OUTPUT says whether all was found"
fi
say "done"
