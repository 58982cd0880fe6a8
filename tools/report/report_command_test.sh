#!/usr/bin/env bash
# `report` as a user meets it: what it takes, and what it says of files that it cannot read.
#
# usage: report_command_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail
# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/expect.sh"

"$sparsmith" synth -o model.safetensors --seed 1 --weight up.weight:96x128:0.9:uniform >/dev/null
"$sparsmith" synth -o one.smtx --shape 64x96 --sparsity 0.9 >/dev/null
"$sparsmith" analyze model.safetensors --json >analysis.json
expect 0 "page.html: .* kB of 3 files" "$sparsmith" report model.safetensors one.smtx analysis.json -o page.html
grep -q 'up.weight' page.html
grep -q 'one' page.html

expect 2 "output is required" "$sparsmith" report model.safetensors
expect 2 "files is required" "$sparsmith" report -o other.html
expect 3 missing.json "$sparsmith" report missing.json -o other.html
expect 3 missing.safetensors "$sparsmith" report missing.safetensors -o other.html
echo '{"weights": [{"name": 3}]}' >bad.json
expect 3 'bad.json.weights\[0\]: "name" is not a string' "$sparsmith" report analysis.json bad.json -o other.html
sed 's/"schema_version":1/"schema_version":2/' analysis.json >newer.json
expect 3 'newer.json: it has schema version 2' "$sparsmith" report newer.json -o other.html
echo '{"tokens": 1, "timing": {}}' >bad.jsonl
expect 3 'bad.jsonl:1: "weight" is missing' "$sparsmith" report bad.jsonl -o other.html
head -c 400 model.safetensors >cut.safetensors
expect 3 cut.safetensors "$sparsmith" report cut.safetensors -o other.html
[[ ! -e other.html ]]
expect 3 "cannot create" "$sparsmith" report analysis.json -o missing/page.html
echo "reports are made, or say why not"
