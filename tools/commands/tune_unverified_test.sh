#!/usr/bin/env bash
# tune on a machine that has neither a GPU nor a C++ compiler, as after an install: choices are predicted, not verified,
# and said to be so.
#
# usage: tune_unverified_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/expect.sh"

# What is installed: without the emulator that has a compiler in it.
mkdir installed
for program in sparsmith sparsmith-worker sparsmith-compiler sparsmith-emulator; do
  cp "$(dirname "$sparsmith")/$program" installed
done
sparsmith=$folder/installed/sparsmith
export CUDA_VISIBLE_DEVICES=

"$sparsmith" synth -o model.safetensors --seed 1 --weight a.weight:96x128:0.9:uniform \
  --weight b.weight:64x200:0.8:lognormal:0.5 >/dev/null
tune=("$sparsmith" tune model.safetensors --tokens 1,8 --memory 8x --cache tune.db -o)
not_verified="^choices are predicted for sm_90 132 SMs, and not verified: no GPU, and no C++ compiler for the emulator"

# A compiler that fails, and none at all. The search path has only what the test needs.
expect 0 "$not_verified" env CXX=/bin/false "${tune[@]}" broken.safetensors
grep -q "4 (weight, N) pairs: 0 from the cache" output
empty=$folder/empty
mkdir "$empty"
expect 0 "$not_verified" env PATH="$empty" CXX= "${tune[@]}" none.safetensors
cmp broken.safetensors none.safetensors
expect 0 "predicted, not verified" env CXX=/bin/false "${tune[@]}" none.safetensors --full
expect 0 '"measured":false.*"verified":false' env CXX=/bin/false "${tune[@]}" none.safetensors --json
[[ $(grep -o '"verified":false' output | wc -l) == 5 ]]  # the run, and each choice
expect 0 predicted "$sparsmith" show none.safetensors

# Asked for, the emulator must verify: the error says what to install.
expect 1 "install g++" env CXX=/bin/false "${tune[@]}" asked.safetensors --device emulator
expect 1 "install g++" env PATH="$empty" CXX= "${tune[@]}" asked.safetensors --device emulator
[[ ! -e asked.safetensors ]]
expect 0 "^emulator: install g++" env CXX=/bin/false "$sparsmith" doctor
grep -q "^emulator  *no  " output
expect 0 "^emulator  *no  .*finds none" env PATH="$empty" CXX= "$sparsmith" doctor
expect 1 "install g++" env PATH="$empty" CXX= \
  "$sparsmith" run none.safetensors --tensor a.weight --device emulator --check --model model.safetensors

# Nobody has to verify, even where something could.
expect 0 "and not verified: --device none; only a run on a GPU measures" "${tune[@]}" asked.safetensors --device none
cmp broken.safetensors asked.safetensors
expect 0 "^not verified: --device none" "$sparsmith" bench model.safetensors --device none --no-cache
expect 2 "none is asked for" "$sparsmith" bench asked.safetensors --device none
expect 2 "goes together with no device" "${tune[@]}" out --device none,cuda:0
expect 2 "none measures nothing" "${tune[@]}" out --device cuda:0,none

# A later run with an emulator verifies, and its choices are the next run's, whatever that one has.
expect 0 "4 (weight, N) pairs: 0 from the cache" "${tune[@]}" verified.safetensors
grep -q "verified in the emulator" output
expect 0 "4 (weight, N) pairs: 4 from the cache" env CXX=/bin/false "${tune[@]}" again.safetensors
grep -q "were verified in an earlier run" output
expect 0 '"verified":true' env CXX=/bin/false "${tune[@]}" again.safetensors --json
[[ $(grep -c '"verified":false' output) == 0 ]]
cmp verified.safetensors again.safetensors
echo "what is not verified says so"
