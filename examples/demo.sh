#!/usr/bin/env bash
# The main job on a drawn model: draw pruned weights, look at them, tune a kernel for each, run and check every one.
# Fails unless generated kernels were chosen and each of them is correct.
#
# usage: demo.sh [SPARSMITH] [FOLDER]      the program, and where the outputs go
#   DEMO_DEVICE   cuda:0 or emulator; default: the GPU if there is one, otherwise the emulator
set -euo pipefail

sparsmith=${1:-sparsmith}
folder=${2:-sparsmith-demo}
model=$folder/model.safetensors
tuned=$folder/model.tuned.safetensors
cache=$folder/cache.sqlite

device=${DEMO_DEVICE:-}
if [[ -z $device ]]; then
  if [[ -e /dev/nvidiactl ]]; then device=cuda:0; else device=emulator; fi
fi

mkdir -p "$folder"
printf '\n== A model: four layers, pruned to 80-98 %%, with rows as uneven as in trained networks\n'
"$sparsmith" synth -o "$model" --seed 1 \
  --weight blocks.0.attention.weight:256x256:0.90:lognormal:0.5 \
  --weight blocks.0.mlp.up.weight:1024x256:0.95:lognormal:0.8 \
  --weight blocks.0.mlp.down.weight:256x1024:0.98:power:1.5 \
  --weight head.weight:500x256:0.80:uniform
"$sparsmith" analyze "$model"

printf '\n== Tune on %s: generate, compile, verify, choose\n' "$device"
"$sparsmith" tune "$model" -o "$tuned" --tokens 1,16 --dtype fp32 --device "$device" --cache "$cache" --budget 3m

printf '\n== The choices\n'
"$sparsmith" show "$tuned"

printf '\n== Run every chosen kernel from the tuned file, and check it against fp64\n'
python3 "$(dirname "${BASH_SOURCE[0]}")/check_choices.py" "$sparsmith" "$tuned" "$device"
printf '\nmodel       %s\ntuned file  %s\ncache       %s\n' "$model" "$tuned" "$cache"
