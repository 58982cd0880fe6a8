#!/usr/bin/env bash
# `synth` and `analyze` as a user meets them: what was drawn is what is found, files repeat, and wrong use says so.
#
# usage: analyze_synth_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail
testdata=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../matrix/testdata")
# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/expect.sh"
fail() { echo "FAILED: $*"; exit 1; }

# The same seed gives the same file, byte for byte; another one another.
draw=("$sparsmith" synth --weight up.weight:96x128:0.9:lognormal:0.5 --weight down.weight:128x96:0.75:power:1.0)
expect 0 '"name":"up.weight","M":96,"K":128,"nnz":1229,' "${draw[@]}" -o a.safetensors --seed 7 --json
expect 0 b.safetensors "${draw[@]}" -o b.safetensors --seed 7
expect 0 c.safetensors "${draw[@]}" -o c.safetensors --seed 8
cmp -s a.safetensors b.safetensors || fail "one seed, two files"
cmp -s a.safetensors c.safetensors && fail "two seeds, one file"

# analyze counts what synth drew: 1,229 of 12,288, and 3,072 of 12,288.
expect 0 "2 weights: 98.30 kB dense" "$sparsmith" analyze a.safetensors
grep -qE '^up.weight +96 x 128 +fp32 +90.00 %' output || fail "no line of up.weight: $(cat output)"
expect 0 '"name":"up.weight","M":96,"K":128,"nnz":1229,' "$sparsmith" analyze a.safetensors --json
grep -q '"name":"down.weight","M":128,"K":96,"nnz":3072,"sparsity":0.75' output || fail "$(cat output)"
expect 0 "row lengths of down.weight" "$sparsmith" analyze a.safetensors --histogram
expect 0 "up.weight" "$sparsmith" analyze a.safetensors --html page.html
grep -q '<html' page.html || fail "page.html is no page"
grep -q 'down.weight' page.html || fail "page.html lacks down.weight"

# Every element type and pattern; a pattern alone is the same pattern.
for type in fp32 fp16 bf16; do
  "$sparsmith" synth -o $type.safetensors --shape 64x96 --sparsity 0.8 --pattern block:4 --dtype $type >/dev/null
  expect 0 "\"nnz\":1232,.*\"b4_fill\":1.0,.*\"dtype\":\"$type\"" "$sparsmith" analyze $type.safetensors --json
done
for pattern in uniform lognormal:1.0 power:2 block:16 2:4; do
  "$sparsmith" synth -o p.safetensors --name p --shape 64x96 --sparsity 0.5 --pattern $pattern --seed 3 >/dev/null
  "$sparsmith" synth --force -o p.smtx --shape 64x96 --sparsity 0.5 --pattern $pattern --seed 3 >/dev/null
  for file in p.safetensors p.smtx; do "$sparsmith" analyze $file --json >$file.json; done
  cmp p.safetensors.json p.smtx.json || fail "$pattern: the pattern alone is another one"
done
grep -q '"n24_ok_frac":1.0' p.smtx.json || fail "2:4 is not: $(cat p.smtx.json)"

# A compressed weight has the name and the figures of the dense one.
for format in bitmask 24_bitmask; do
  for name in l.0.fc1 reference; do
    "$sparsmith" analyze "$testdata/sparse_$format.safetensors" --include $name.weight --json >$name.json
    grep -q "\"name\":\"$name.weight\"" $name.json || fail "$format: no $name.weight"
  done
  cmp <(sed s/l.0.fc1/reference/ l.0.fc1.json | sed 's/"skipped".*//') <(sed 's/"skipped".*//' reference.json) ||
    fail "$format: other figures"
done

# What is left out is said, with the reason.
expect 0 "skipped down.weight (F32 \[128, 96\]): no --include pattern matches it" \
  "$sparsmith" analyze a.safetensors --include 'up.*'
expect 0 "skipped up.weight .* an --exclude pattern matches it" "$sparsmith" analyze a.safetensors --exclude 'up.*'
expect 0 "skipped down.weight .* 75.0 % of it is zero; fewer zeros than --min-sparsity asks (80.0 %)" \
  "$sparsmith" analyze a.safetensors --min-sparsity 0.8
expect 0 "0 weights" "$sparsmith" analyze a.safetensors --min-sparsity 0.99

# Wrong use and bad files: no file is left behind.
expect 2 "output is required" "$sparsmith" synth --shape 8x8
expect 2 "nothing to draw" "$sparsmith" synth -o x.smtx
expect 2 "not of the form MxK" "$sparsmith" synth -o x.smtx --shape 8
expect 2 "outside of \[0, 1\]" "$sparsmith" synth -o x.smtx --shape 8x8 --sparsity 1.5
expect 2 "unknown pattern 'zigzag'" "$sparsmith" synth -o x.smtx --shape 8x8 --pattern zigzag
expect 2 "not of the form name:MxK:sparsity:pattern" "$sparsmith" synth -o x.smtx --weight w:8x8:0.5
expect 2 "unknown --dtype" "$sparsmith" synth -o x.smtx --shape 8x8 --dtype int8
expect 2 "the extension must be" "$sparsmith" synth -o x.bin --shape 8x8
expect 2 ".smtx holds one matrix, not 2" "${draw[@]}" -o x.smtx
expect 3 "cannot create" "$sparsmith" synth -o missing/x.smtx --shape 8x8
expect 3 missing.safetensors "$sparsmith" analyze missing.safetensors
head -c 300 a.safetensors >x.safetensors
expect 3 x.safetensors "$sparsmith" analyze x.safetensors
echo "3, 3, 9" >bad.smtx
expect 3 bad.smtx "$sparsmith" analyze bad.smtx
[[ ! -e x.smtx && ! -e x.bin ]] || fail "a failed synth left a file"
echo "what was drawn is what is found"
