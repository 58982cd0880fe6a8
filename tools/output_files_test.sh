#!/usr/bin/env bash
# No command replaces its input, another output, or a file that it did not write; and it says so before it does any work.
#
# usage: output_files_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

seeds=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../tests/fuzz/seeds")
# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tests/support/expect.sh"

"$sparsmith" synth -o model.safetensors --seed 1 --weight a.weight:96x128:0.9:uniform >/dev/null
"$sparsmith" synth -o shard.safetensors --seed 2 --weight b.weight:32x64:0.9:uniform >/dev/null
echo '{"weight_map": {"b.weight": "shard.safetensors"}}' >model.safetensors.index.json
tune() {
  local model=$1
  shift
  "$sparsmith" tune "$model" "$@" --tokens 1 --candidates 4 --families slots --memory 8x --device emulator
}
tune model.safetensors -o tuned.safetensors >/dev/null 2>&1
cp cache/sparsmith/cache.db tune.db
"$sparsmith" analyze model.safetensors --html page.html >/dev/null
cp model.safetensors stranger.safetensors
"$sparsmith" synth -o drawn.safetensors --shape 8x8 >/dev/null
python3 - <<'PY'
# A model that somebody else made: the same, without the metadata of `synth`.
import json, struct
data = open("stranger.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
del header["__metadata__"]
text = json.dumps(header).encode()
open("stranger.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
PY
echo "somebody's notes" >notes.txt
mkdir folder
ln model.safetensors hard.safetensors
ln -s model.safetensors link.safetensors
ln -s nowhere dangling
ln -s tuned.safetensors link.tuned
find . -type f ! -name output ! -path './cache/*' -exec sha256sum {} + | sort >../before.$$
trap 'rm -rf "$folder" "$folder/../before.$$"' EXIT

# refused WORD COMMAND...: exit code 2, and no file changed.
refused() {
  expect 2 "$@"
  find . -type f ! -name output ! -path './cache/*' -exec sha256sum {} + | sort >../after.$$
  cmp "../before.$$" "../after.$$" || { echo "FAILED: $* changed a file"; exit 1; }
  rm "../after.$$"
}
# Inputs, by every name that they have; not even with --force.
refused "is the input" tune model.safetensors -o model.safetensors --force
refused "is the input" tune model.safetensors -o ./folder/../model.safetensors --force
refused "is the input" tune model.safetensors -o hard.safetensors --force
refused "is the input" tune hard.safetensors -o model.safetensors --force
refused "is the input" tune model.safetensors -o link.safetensors --force
refused "is the input" tune link.safetensors -o model.safetensors --force
refused "is the input shard.safetensors" tune model.safetensors.index.json -o shard.safetensors --force
refused "is the input" tune model.safetensors -o out --html model.safetensors --force
refused "is the input" tune model.safetensors -o out --cache model.safetensors
refused "is the input" tune model.safetensors -o out --record model.safetensors
refused "is the input" "$sparsmith" analyze model.safetensors --html model.safetensors --force
refused "is the input" "$sparsmith" bench model.safetensors --html model.safetensors --force
refused "is the input" "$sparsmith" report tuned.safetensors page.html -o page.html --force
refused "is the input shard" "$sparsmith" report model.safetensors.index.json -o shard.safetensors --force

# Other outputs, and the cache.
refused "also the file of --output" tune model.safetensors -o out --html out
refused "also the file of --output" tune model.safetensors -o out --html ./out
refused "also the file of --cache" tune model.safetensors -o tune.db --cache tune.db --force
refused "also the file of --cache" tune model.safetensors -o new.db --cache new.db
refused "also the file of --cache" tune model.safetensors -o out --record tune.db --cache tune.db
refused "also the file of --cache" tune model.safetensors -o cache/sparsmith/cache.db

# Files of other kinds.
for foreign in stranger.safetensors model.safetensors.index.json notes.txt page.html; do
  refused "is no tuned file; choose another name, or replace it with --force" tune model.safetensors -o $foreign
done
for foreign in stranger.safetensors tuned.safetensors notes.txt; do
  refused "is no page of sparsmith" "$sparsmith" analyze model.safetensors --html $foreign
  refused "is no page of sparsmith" "$sparsmith" report tuned.safetensors model.safetensors.index.json -o notes.txt
done
refused "is no model that sparsmith drew" "$sparsmith" synth -o stranger.safetensors --shape 8x8
refused "is no model that sparsmith drew" "$sparsmith" synth -o tuned.safetensors --shape 8x8
refused "is no file of recorded spaces" tune model.safetensors -o out --record notes.txt
refused "symbolic link" tune model.safetensors -o dangling
refused "symbolic link" tune model.safetensors -o link.tuned --force
refused "that is no file" tune model.safetensors -o folder --force
refused "that is no file" "$sparsmith" analyze model.safetensors --html /dev/null --force
expect 3 "cannot create a file in its folder" tune model.safetensors -o nowhere/out
[[ ! -e out && ! -e nowhere ]]
compgen -G '.sparsmith-*.tmp' && { echo "FAILED: a temporary file is left"; exit 1; }

# What a command wrote it replaces, and what is empty.
expect 0 predicted tune model.safetensors -o tuned.safetensors
: >empty
expect 0 predicted tune model.safetensors -o empty
expect 0 "a.weight" "$sparsmith" analyze model.safetensors --html page.html
expect 0 "tuned.html" "$sparsmith" report tuned.safetensors -o tuned.html
expect 0 "tuned.html" "$sparsmith" report tuned.safetensors -o tuned.html
expect 0 drawn "$sparsmith" synth -o drawn.safetensors --shape 16x16
expect 0 x.smtx "$sparsmith" synth -o x.smtx --shape 8x8
expect 2 "is no pattern that sparsmith drew" "$sparsmith" synth -o x.smtx --shape 8x8
expect 0 x.smtx "$sparsmith" synth -o x.smtx --shape 8x8 --force
for _ in 1 2; do
  expect 0 "sources/" "$sparsmith" show tuned.safetensors --tensor a.weight --source-folder sources
  expect 0 t4.json "$sparsmith" space export-t4 "$seeds/recorded_space/two_runs.jsonl" -o t4
done
for source in sources/*.cu; do
  echo "int mine;" >"$source"
  expect 2 "is no kernel of sparsmith" "$sparsmith" show tuned.safetensors --tensor a.weight --source-folder sources
  [[ $(cat "$source") == "int mine;" ]]
done
# A file of records is added to: that it may not be written is said before there is anything to write. Root may write
# whatever it likes, but for a capability that it drops.
cp "$seeds/recorded_space/two_runs.jsonl" locked.jsonl
chmod a-w locked.jsonl
bounded=()
[[ ! -w locked.jsonl ]] || bounded=(setpriv --bounding-set=-dac_override)
"${bounded[@]}" bash -c '[[ ! -w locked.jsonl ]]' || { echo "root cannot drop a right" >&2; exit 1; }
expect 1 "locked.jsonl: cannot be written" "${bounded[@]}" "$sparsmith" tune model.safetensors -o recorded \
  --record locked.jsonl --candidates 4 --families slots --device emulator
[[ ! -e recorded ]]
# With --force, files of strangers too.
expect 0 predicted tune model.safetensors -o notes.txt --force
expect 0 "a.weight" "$sparsmith" show notes.txt
echo "no command destroys a file"
