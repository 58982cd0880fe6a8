#!/usr/bin/env bash
# `tune` killed at any moment leaves a cache that opens and goes on, and two of them on one cache do not disturb each
# other: what comes out is what an undisturbed run writes, byte by byte.
#
# usage: tune_kill_test.sh FOLDER_OF_PROGRAMS        SPARSMITH_TEST_SEED=N draws the same moments again
set -euo pipefail

sparsmith=$(realpath "$1")/sparsmith
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
RANDOM=${SPARSMITH_TEST_SEED:-$((SECONDS + $$))}
seed=$RANDOM
RANDOM=$seed
echo "SPARSMITH_TEST_SEED=$seed"

fail() {
  echo "FAILED: $*"
  exit 1
}

# tune MODEL CACHE OUTPUT
tune() {
  "$sparsmith" tune "$1.safetensors" -o "$3" --tokens 1,4 --candidates 4 --device emulator --cache "$2" >>log 2>&1
}

verify() {
  "$sparsmith" cache verify --cache "$1" >verified 2>&1 || { cat verified; fail "cache $1 is damaged after $2"; }
}

for model in first second; do
  "$sparsmith" synth -o $model.safetensors --seed "${#model}" --weight a.weight:96x128:0.9:uniform \
    --weight b.weight:64x200:0.8:lognormal:0.5 --weight c.weight:40x40:0.7:uniform >/dev/null 2>&1
done
begin=$(date +%s%N)
tune first alone1.db first.expected
milliseconds=$((($(date +%s%N) - begin) / 1000000))
tune second alone2.db second.expected

kills=0 cut=0
for round in 1 2 3 4; do
  for _ in 1 2 3 4 5 6; do
    tune first round$round.db killed &
    child=$!
    delay=$((RANDOM % (milliseconds + 100)))
    sleep "$((delay / 1000)).$(printf %03d $((delay % 1000)))"
    # The worker too, or not: whoever is left over must do no harm.
    if ((RANDOM % 2)); then pkill -9 -P "$(pgrep -P $child | head -n 1)" 2>/dev/null || true; fi
    pkill -9 -P $child 2>/dev/null && cut=$((cut + 1))
    kill -9 $child 2>/dev/null || true
    wait $child 2>/dev/null || true
    kills=$((kills + 1))
    if [[ -e round$round.db ]]; then verify round$round.db "kill $kills after $delay ms"; fi
    if [[ -e killed ]]; then
      cmp -s killed first.expected || fail "kill $kills after $delay ms left another tuned file, or a part of one"
      rm killed
    fi
  done
  tune first round$round.db again || { cat log; fail "tune does not go on after kills"; }
  cmp again first.expected || fail "tune chose otherwise after kills"
done
((cut > 0)) || fail "no run was caught alive"

# Two at once on one cache: the same model, then different ones.
for other in first second; do
  for round in 1 2; do
    cache=both_$other$round.db
    tune first "$cache" one &
    one=$!
    tune $other "$cache" two &
    two=$!
    wait $one || { cat log; fail "the first of two runs on $cache"; }
    wait $two || { cat log; fail "the second of two runs on $cache"; }
    cmp one first.expected || fail "two runs on $cache: the first chose otherwise"
    cmp two $other.expected || fail "two runs on $cache: the second chose otherwise"
    verify "$cache" "two runs at once"
  done
done
echo "$kills kills, $cut of them of a run that was alive, within $milliseconds ms; 4 pairs of runs on one cache"
