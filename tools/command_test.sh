#!/usr/bin/env bash
# The program as a user meets it: exit codes, and the way from a drawn model to a checked operator in the emulator.
#
# usage: command_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

sparsmith=$1/sparsmith
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
cd "$folder"

# expect CODE WORD COMMAND...: the exit code, and a word that the output holds.
expect() {
  local code=$1 word=$2 got=0
  shift 2
  "$@" >output 2>&1 || got=$?
  if [[ $got != "$code" ]] || ! grep -q -- "$word" output; then
    echo "FAILED: $* (exit code $got, expected $code and \"$word\")"
    cat output
    exit 1
  fi
}

expect 2 subcommand "$sparsmith"
expect 0 tune "$sparsmith" --help
expect 2 objective "$sparsmith" tune x -o y --objective speed
expect 3 missing.safetensors "$sparsmith" tune missing.safetensors -o out
echo "neither a header nor a tensor" >bad.safetensors
expect 3 bad.safetensors "$sparsmith" tune bad.safetensors -o out
expect 3 bad.safetensors "$sparsmith" show bad.safetensors
expect 0 emulator "$sparsmith" doctor

"$sparsmith" synth -o model.safetensors --seed 1 --weight a.weight:96x128:0.9:uniform \
  --weight b.weight:64x200:0.8:lognormal:0.5 >/dev/null
expect 2 ascending "$sparsmith" tune model.safetensors -o out --tokens 8,1 --device emulator
expect 2 gpu7 "$sparsmith" tune model.safetensors -o out --device gpu7
[[ ! -e out ]]
echo "not a database, and longer than the header of one ..............................................." >other.db
expect 3 other.db "$sparsmith" tune model.safetensors -o out --device emulator --cache other.db

# Then once more from the cache alone.
tune=("$sparsmith" tune model.safetensors -o model.tuned.safetensors --tokens 1,8 --device emulator --cache tune.db)
expect 0 predicted "${tune[@]}"
expect 0 "4 (weight, N) pairs, 4 from the cache" "${tune[@]}"
expect 0 sound "$sparsmith" cache verify --cache tune.db
expect 0 predicted "$sparsmith" cache ls --cache tune.db
expect 0 exported "$sparsmith" cache export exported.db --cache tune.db
expect 0 exported "$sparsmith" cache export $'\xff.db' --cache tune.db --json
expect 0 "4 choices" "$sparsmith" cache import exported.db --cache imported.db

for tensor in a.weight b.weight; do
  expect 0 'correct\|nothing to check' "$sparsmith" run model.tuned.safetensors --tensor $tensor --tokens 5 \
    --device emulator --check --model model.safetensors
done
"$sparsmith" tune model.safetensors -o one.safetensors --include 'a.*' --device emulator --cache tune.db >/dev/null
expect 0 '"tensor":"a.weight"' "$sparsmith" run one.safetensors --device emulator --json
expect 0 a.weight "$sparsmith" show model.tuned.safetensors
expect 0 why "$sparsmith" show model.tuned.safetensors --tensor a.weight --tokens 1
expect 3 c.weight "$sparsmith" show model.tuned.safetensors --tensor c.weight
expect 0 '"weights"' "$sparsmith" tune model.safetensors -o json.safetensors --device emulator --cache tune.db --json
expect 0 "geometric mean" "$sparsmith" bench model.safetensors --device emulator --cache tune.db
echo "all commands behave"
