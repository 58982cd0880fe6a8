#!/usr/bin/env bash
# What a build with -DSPARSMITH_PLANTS=ON plants, as far as no GPU is needed: each plant changes what it is meant to
# change, nothing else, and leaves every result right (the emulator verifies what is chosen).
#
# usage: plants_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/expect.sh"

expect 0 "" "$sparsmith" synth -o w.safetensors --dtype fp16 --seed 7 --weight a:512x1024:0.95:uniform
for plant in "" slow_snippet bank_schedule cost_model; do
  for family in slots panel slots,rows; do
    SPARSMITH_PLANT=$plant expect 0 "" "$sparsmith" bench w.safetensors --tokens 8 --families "$family" --no-cache \
      --device emulator --json
    grep '^{' output >"$plant.$family.json"
  done
done

# Candidates that do not work: each costs itself alone, says what it was, and where none is left dense serves.
faulty() {  # FAULT WORD OPTION...
  local fault=$1 word=$2
  shift 2
  SPARSMITH_PLANT=candidate_faults SPARSMITH_PLANT_SHARE=100 SPARSMITH_PLANT_FAULTS=$fault expect 0 "[1-9]  $word" \
    "$sparsmith" tune w.safetensors -o t.safetensors --tokens 8 --no-cache --device emulator "$@"
  grep -Eq " dense +[0-9.]+ [KMG]?B " output || { cat output && exit 1; }
}
faulty address "wrong result"
faulty wrong "wrong result"
faulty source "does not compile"
faulty assembly "does not compile"
faulty trap "took the worker down"
faulty memory "out of device memory"
if "$sparsmith" doctor | grep -q "NVRTC  *yes"; then
  faulty crash "took the compiler down"
  SPARSMITH_PLANT_COMPILER_LIMIT=2 faulty hang "the compiler did not come back in time" --candidates 4
fi
SPARSMITH_PLANT=candidate_faults SPARSMITH_PLANT_FAULTS=trapp expect 2 "SPARSMITH_PLANT_FAULTS=trapp makes no sense" \
  "$sparsmith" bench w.safetensors --device emulator --no-cache
SPARSMITH_PLANT=slow expect 2 "one of slow_snippet, bank_schedule, cost_model" "$sparsmith" bench w.safetensors

python3 - <<'PYTHON'
import json

SNIPPET = "snippets/reduction/slot_sums.cuh"


def choice(plant, family):
    found = json.load(open(f"{plant}.{family}.json"))["weights"][0]["choices"][0]
    assert not found["config"].startswith("dense ") and found["max_error_over_bound"] <= 1, (plant, family, found)
    return found


def differences(family, plant):
    plain, planted = choice("", family), choice(plant, family)
    names = ["config", "packing", "packing_hash", "packed_bytes", "plan_hash"]
    found = [name for name in names if plain[name] != planted[name]]
    if found[:1] == ["config"]:
        return ["config"]
    for x, y in zip(plain["binaries"], planted["binaries"], strict=True):
        found += [name for name in ("name", "cubin_hash") if x[name] != y[name]]
        found += [header for header in x["snippets"] if x["snippets"][header] != y["snippets"].get(header)]
    return found


assert differences("slots", "slow_snippet") == ["cubin_hash", SNIPPET], differences("slots", "slow_snippet")
assert differences("panel", "slow_snippet") == []
assert differences("panel", "bank_schedule") == ["packing_hash"], differences("panel", "bank_schedule")
assert differences("slots", "bank_schedule") == []
assert differences("slots,rows", "cost_model") == ["config"]
assert choice("cost_model", "slots,rows")["config"].startswith("rows")
assert differences("panel", "cost_model") == []
PYTHON
echo "plants are where they should be"
