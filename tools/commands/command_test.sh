#!/usr/bin/env bash
# The program as a user meets it: exit codes, and the way from a drawn model to a checked operator in the emulator.
#
# usage: command_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

seeds=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../tests/fuzz/seeds")
# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/expect.sh"

expect 2 subcommand "$sparsmith"
expect 2 "sparsmith has no command shwo; do you mean show?" "$sparsmith" shwo model.safetensors
expect 2 "sparsmith has no command nosuch; its commands are analyze, tune" "$sparsmith" -v nosuch
expect 2 "cache has no command list; " "$sparsmith" cache list
expect 0 tune "$sparsmith" --help
expect 2 "objective: there is no such option; give --memory" "$sparsmith" tune x -o y --objective memory
expect 3 missing.safetensors "$sparsmith" tune missing.safetensors -o out
echo "neither a header nor a tensor" >bad.safetensors
expect 3 bad.safetensors "$sparsmith" tune bad.safetensors -o out
expect 3 bad.safetensors "$sparsmith" show bad.safetensors
# What no reader supports is bad input too.
printf '%%%%MatrixMarket matrix coordinate complex general\n1 1 0\n' >complex.mtx
expect 3 "complex matrices are not supported" "$sparsmith" analyze complex.mtx
mkdir folder.safetensors
expect 3 "a folder with no .safetensors files" "$sparsmith" analyze folder.safetensors
# A few bytes that claim a matrix of gigabytes.
printf '%%%%MatrixMarket matrix coordinate real general\n67108864 67108864 1\n1 1 1\n' >huge.mtx
expect 1 "takes 536870[0-9]* bytes of memory, and 100000000 are allowed; --max-memory allows more" \
  "$sparsmith" analyze huge.mtx --max-memory 100MB
echo '{"name": "x", "name": "y", "weights": []}' >twice.json
expect 3 '"name" comes twice' "$sparsmith" perf record twice.json --commit c1 --db twice.db
expect 0 emulator "$sparsmith" doctor
expect 0 "^cache  *yes  .*cache.db: none yet" "$sparsmith" doctor

"$sparsmith" synth -o model.safetensors --seed 1 --weight a.weight:96x128:0.9:uniform \
  --weight b.weight:64x200:0.8:lognormal:0.5 >/dev/null
expect 2 ascending "$sparsmith" tune model.safetensors -o out --tokens 8,1 --device emulator
expect 2 gpu7 "$sparsmith" tune model.safetensors -o out --device gpu7
expect 2 twice "$sparsmith" tune model.safetensors -o out --device cuda:0,cuda:0
expect 2 emulator "$sparsmith" tune model.safetensors -o out --device cuda:0,emulator
expect 2 "packings: there is no such option" "$sparsmith" tune model.safetensors -o out --packings 1 --device emulator
for wrong in 3XB 0x 17x -1x x 1e300GB 0.1B ""; do
  expect 2 "memory" "$sparsmith" tune model.safetensors -o out --memory "$wrong" --device emulator
done
for wrong in 0 -5s 5x nan inf s; do
  expect 2 "is no duration" "$sparsmith" tune model.safetensors -o out --budget "$wrong" --device emulator
done
[[ ! -e out ]]
echo "not a database, and longer than the header of one ..............................................." >other.db
expect 3 other.db "$sparsmith" tune model.safetensors -o out --device emulator --cache other.db

# A Hugging Face folder stands for its weights. A pickle is refused, with the way out.
mkdir hf sharded pickled
cp model.safetensors hf
cp model.safetensors hf/other.safetensors
expect 0 "2 weights" "$sparsmith" analyze hf
cp model.safetensors sharded/part.safetensors
echo '{"weight_map": {"a.weight": "part.safetensors"}}' >sharded/model.safetensors.index.json
expect 0 "1 weight:" "$sparsmith" analyze sharded
expect 2 "sharded/part.safetensors" "$sparsmith" tune sharded -o sharded/part.safetensors --device emulator
mv hf/model.safetensors hf/third.safetensors
expect 3 "2 .safetensors files and no model.safetensors.index.json" "$sparsmith" analyze hf
touch pickled/pytorch_model.bin
expect 3 "pickles are not read.*save_pretrained" "$sparsmith" analyze pickled
printf '\200\2an older pickle' >weights.bin
expect 3 "pickles are not read.*save_pretrained" "$sparsmith" analyze weights.bin
printf 'PK\3\4 and more' >weights.bin
expect 3 "pickles are not read.*save_pretrained" "$sparsmith" analyze weights.bin
rm -r hf sharded pickled

# The summary of the model, then layers of one shape in one row; what the largest N stands for. Many skips in a line.
"$sparsmith" synth -o layers.safetensors --seed 2 --weight layers.0.up:64x96:0.9:uniform \
  --weight layers.1.up:64x96:0.95:uniform --weight a:8x8:0.1:uniform --weight b:8x8:0.1:uniform \
  --weight c:8x8:0.1:uniform --weight d:8x8:0.1:uniform >/dev/null
tuned=("$sparsmith" tune layers.safetensors -o layers.tuned.safetensors --device emulator --cache layers.db)
expect 0 "^layers[.][*][.]up  *2  *64x96  *90-95 %  *32 " "${tuned[@]}"
[[ $(grep -n "^whole model, one call of each of 2 weights" output | cut -d: -f1) -lt $(grep -n "^layers" output | head -n 1 | cut -d: -f1) ]]
grep -q "^N above 32 runs the kernels of N = 32" output
grep -q "^skipped 4 tensors (--full lists them): 4: fewer zeros than --min-sparsity asks (30.0 %)" output
[[ $(grep -c "^rejected candidates" output) == 0 ]]
expect 0 "^layers.1.up  *64x96  *95.0 %  *32 " "${tuned[@]}" --full
grep -q "^skipped d: " output
expect 1 "no weight has enough zeros; is the model pruned" "${tuned[@]}" --min-sparsity 0.99
rm layers.*

# Then once more from the cache alone.
tune=("$sparsmith" tune model.safetensors -o model.tuned.safetensors --tokens 1,8 --device emulator --cache tune.db
  --memory 8x)
expect 0 predicted "${tune[@]}"
expect 0 "4 (weight, N) pairs: 4 from the cache" "${tune[@]}"
expect 1 "memory 1 cannot be met: the smallest choices take [0-9]* bytes; no tuned file" \
  "$sparsmith" tune model.safetensors -o limited --tokens 1,8 --device emulator --cache tune.db --memory 1B
expect 1 "memory 0.01x cannot be met: the smallest choices of [ab].weight take [01].[0-9]*x" \
  "$sparsmith" tune model.safetensors -o limited --tokens 1,8 --device emulator --cache tune.db --memory 0.01x
[[ ! -e limited ]]
expect 2 "99999999999999999999" "${tune[@]}" --tokens 99999999999999999999
expect 0 "GPU memory: .* dense, .* tuned ([.0-9]*x)" \
  "$sparsmith" tune model.safetensors -o limited --tokens 1,8 --device emulator --cache tune.db --memory 3GB
expect 0 predicted "${tune[@]}"  # the file that follows is not bounded
expect 0 sound "$sparsmith" cache verify --cache tune.db
expect 0 predicted "$sparsmith" cache ls --cache tune.db
expect 0 exported "$sparsmith" cache export exported.db --cache tune.db
expect 0 exported "$sparsmith" cache export $'\xff.db' --cache tune.db --json
expect 0 "4 choices" "$sparsmith" cache import exported.db --cache imported.db
# What doctor says of the default cache: a good one, and one that is broken.
expect 0 "4 choices" "$sparsmith" cache import exported.db
expect 0 "^cache  *yes  .*cache.db: 4 choices" "$sparsmith" doctor
cp other.db "$XDG_CACHE_HOME/sparsmith/cache.db"
expect 0 "^cache  *no  .*cache.db" "$sparsmith" doctor
rm -r "$XDG_CACHE_HOME/sparsmith"

# Shards: their joined caches have the choices of one run.
sharded=("$sparsmith" tune model.safetensors --tokens 1,8 --device emulator)
for number in 1 2; do
  expect 0 "2 (weight, N) pairs: 0 from the cache" \
    "${sharded[@]}" --memory 8x -o shard --cache shard$number.db --shard $number/2
done
expect 0 "choices" "$sparsmith" cache merge shard1.db shard2.db --cache joined.db
expect 0 "4 (weight, N) pairs: 4 from the cache" "${sharded[@]}" --memory 8x -o joined --cache joined.db
cmp joined model.tuned.safetensors
expect 2 '"3/2" is no shard: give its number, from 1' "${sharded[@]}" -o shard --cache joined.db --shard 3/2
expect 2 "shard 3/3: no weight is left for it: the model's 2 weights" "${sharded[@]}" -o shard --cache joined.db --shard 3/3
expect 2 "bytes of all weights together" "${sharded[@]}" -o shard --cache joined.db --shard 1/2 --memory 3GB

# Units: the same, where the second begins with the results of the first.
"$sparsmith" synth -o near.safetensors --seed 3 --weight a:64x96:0.9:uniform --weight b:64x96:0.9:uniform \
  --weight c:64x96:0.9:uniform --weight d:96x64:0.9:uniform >/dev/null
near=("$sparsmith" tune near.safetensors --tokens 1 --device emulator)
expect 0 '"units":\[{"after":null,"weights":\["a"\].*"after":0,"weights":\["b","c"\]' "${near[@]}" -o none --units 3 --json
[[ ! -e none ]]
expect 2 "near.safetensors" "${near[@]}" -o near.safetensors --units 3
expect 1 "is the model pruned" "${near[@]}" -o none --units 3 --exclude '*'
expect 0 "choices" "${near[@]}" -o none --cache unit.db --only b --only c --full
grep -q "^skipped a: .*--only leaves it out" output
expect 0 "2 (weight, N) pairs: 2 from the cache" "${near[@]}" -o none --cache unit.db --only b --only c
expect 2 "only e: near.safetensors has no weight or group of this name" "${near[@]}" -o none --cache unit.db --only e
expect 2 "bytes of all weights together" "${near[@]}" -o none --units 3 --memory 3GB
expect 0 "exported" "$sparsmith" cache export --cache unit.db recent.db --seconds 3600
expect 0 "2 choices" "$sparsmith" cache merge recent.db --cache joined.db
rm none near.safetensors

for tensor in a.weight b.weight; do
  expect 0 'correct\|nothing to check' "$sparsmith" run model.tuned.safetensors --tensor $tensor --tokens 5 \
    --device emulator --check --model model.safetensors
done
"$sparsmith" tune model.safetensors -o one.safetensors --tokens 1 --include 'a.*' --device emulator --cache tune.db >/dev/null
expect 0 '"tensor":"a.weight"' "$sparsmith" run one.safetensors --device emulator --json
expect 0 "N = 9 lies above the largest tuned bucket, 1" "$sparsmith" run one.safetensors --device emulator --tokens 9
expect 1 "max-memory allows more" "$sparsmith" run one.safetensors --device emulator --tokens 4096 --max-memory 1MB
expect 1 "a.weight at N = 1 in the emulator takes" "$sparsmith" run one.safetensors --device emulator --max-memory 150KB
# The kernels of a tuned file are timed as they are. The emulator verifies them, and measures no time.
expect 0 "verified in the emulator" "$sparsmith" bench model.tuned.safetensors --device emulator
expect 0 '"evidence":"verified".*"tokens":3' \
  "$sparsmith" bench one.safetensors --device emulator --tokens 3 --include 'a.*' --json
expect 4 "no usable GPU.*--device emulator" env CUDA_VISIBLE_DEVICES= "$sparsmith" bench one.safetensors
expect 2 "timed as they are, without --memory" "$sparsmith" bench one.safetensors --device emulator --memory 2x
expect 3 "no weight of the tuned file is selected" "$sparsmith" bench one.safetensors --device emulator --include x
expect 0 a.weight "$sparsmith" show model.tuned.safetensors
# What cannot be printed is an error, whichever command it is.
for command in "show model.tuned.safetensors" "analyze model.safetensors" "cache ls --cache tune.db" \
  "synth -o full.safetensors --shape 8x8" "run one.safetensors --device emulator" "show model.tuned.safetensors --json"; do
  code=0
  # shellcheck disable=SC2086  # words
  "$sparsmith" $command >/dev/full 2>output || code=$?
  [[ $code == 1 ]] && grep -q "stdout cannot be written: No space left on device" output ||
    { echo "FAILED: $command on a full stdout: exit code $code"; cat output; exit 1; }
done
# Names that a terminal would obey.
"$sparsmith" synth -o names.safetensors --weight $'a\e[31m\nb:8x64:0.9:uniform' >/dev/null
expect 0 'a\\x1b\[31m\\x0ab' "$sparsmith" analyze names.safetensors
expect 0 'a\\x1b\[31m' "$sparsmith" tune names.safetensors -o names.tuned.safetensors --device emulator --no-cache
expect 0 'a\\x1b\[31m' "$sparsmith" show names.tuned.safetensors
[[ $(grep -c $'\e' output) == 0 ]]
expect 0 why "$sparsmith" show model.tuned.safetensors --tensor a.weight --tokens 1
grep -q "^  config    [a-z ]*: [a-z ]* [0-9a-z]*, " output
grep -q "^  key       [a-z_]* [a-z_]*=" output
expect 0 "why, for N up to 1" "$sparsmith" show model.tuned.safetensors --tensor a.weight --why --cache tune.db
expect 0 '"families":.*"flips_at_density"' \
  "$sparsmith" show model.tuned.safetensors --tensor a.weight --why --json --cache tune.db
expect 0 '__global__' "$sparsmith" show model.tuned.safetensors --tensor a.weight --source
expect 0 'sources/.*[.]cu' "$sparsmith" show model.tuned.safetensors --tensor a.weight --source-folder sources
expect 2 --tensor "$sparsmith" show model.tuned.safetensors --source-folder sources
expect 1 other.db "$sparsmith" show model.tuned.safetensors --tensor a.weight --source-folder other.db/sources
for source in sources/*.cu; do
  grep -q "__global__" "$source"
done
expect 3 none.db "$sparsmith" show model.tuned.safetensors --tensor a.weight --why --cache none.db
expect 3 c.weight "$sparsmith" show model.tuned.safetensors --tensor c.weight
expect 0 '"weights"' "$sparsmith" tune model.safetensors -o json.safetensors --device emulator --cache tune.db --json
expect 0 "geometric mean" "$sparsmith" bench model.safetensors --device emulator --cache tune.db
expect 0 "geometric mean over dense: [0-9.]*x in 2 cases" \
  "$sparsmith" bench model.safetensors --device emulator --cache tune.db --epilogue gelu --vs cublas,cusparse
expect 0 "geometric mean over cusparselt: no case was measured" \
  "$sparsmith" bench model.safetensors --device emulator --cache tune.db --vs cusparselt
# Epilogues by weight: the last match wins, whatever the default and its place are.
epilogues=("$sparsmith" tune model.safetensors -o epilogues.safetensors --tokens 1 --device emulator --cache tune.db)
expect 0 '"command":"sparsmith bench [^"]* --tokens 1 --include a.weight".*"command":"sparsmith bench [^"]* --epilogue relu --tokens' \
  "${epilogues[@]}" --epilogue '*.weight=bias' --epilogue '[a]*=none' --epilogue relu --epilogue 'b.*=relu' --json
expect 0 '"spmm_fp32_token_major_none".*"spmm_fp32_token_major_relu"' "$sparsmith" show epilogues.safetensors --json
expect 0 "^b.weight " "${epilogues[@]}" --epilogue relu --epilogue b.weight=bias,gelu --full
expect 0 '"spmm_fp32_token_major_relu".*"spmm_fp32_token_major_bias+gelu"' "$sparsmith" show epilogues.safetensors --json
expect 2 'epilogue b.*=bias,tanh: epilogue "bias,tanh": "tanh" is none of bias' "${epilogues[@]}" --epilogue 'b.*=bias,tanh'
expect 2 "epilogue =bias: there is no pattern in front of the =" "${epilogues[@]}" --epilogue =bias
expect 2 "epilogue c.*=bias: no weight or group has a name that matches c.[*]" "${epilogues[@]}" --epilogue 'c.*=bias'
expect 0 "epilogue b.*=bias: only skipped tensors match b.[*]" "${epilogues[@]}" --epilogue 'b.*=bias' --include 'a.*'
expect 2 "nccl" "$sparsmith" bench model.safetensors --device emulator --vs nccl
expect 0 "roofline us  bound by  reached" "$sparsmith" bench model.safetensors --device emulator --cache tune.db
expect 0 '^|.*| roofline us | bound by | reached' \
  "$sparsmith" bench model.safetensors --device emulator --cache tune.db --markdown
expect 0 '"command":"sparsmith bench model.safetensors --layout feature_major --device emulator --epilogue gelu --tokens' \
  "$sparsmith" bench model.safetensors --device emulator --no-cache --layout feature_major --epilogue gelu --json
expect 0 '"roofline":{"by":"memory","reached":' \
  "$sparsmith" bench model.safetensors --device emulator --cache tune.db --json
expect 0 "reached  full us  no decode us  no multiply us  copy only us  error" \
  "$sparsmith" bench model.safetensors --device emulator --cache tune.db --ablation
"$sparsmith" synth -o sparse.safetensors --shape 1024x2048 --sparsity 0.97 >/dev/null 2>&1  # where dense is no choice
expect 0 "no ablation in .* takes a GPU" "$sparsmith" bench sparse.safetensors --device emulator --cache tune.db --ablation
expect 0 '"ablation":{"reason":"' \
  "$sparsmith" bench sparse.safetensors --device emulator --cache tune.db --ablation --json
break_even=("$sparsmith" bench --break-even 96x128 --points 2 --device emulator --cache tune.db)
expect 0 "^1 .*30.0 %.*predicted" "${break_even[@]}" --tokens 1
expect 0 '"break_even":.*"sparse_at":0.3,"tokens":8' "${break_even[@]}" --tokens 8 --pattern lognormal:0.5 --json
expect 2 "either a file or --break-even" "$sparsmith" bench
expect 2 "either a file or --break-even" "${break_even[@]}" model.safetensors
expect 2 "takes a file" "${break_even[@]}" --ablation
expect 2 "draws the weights, which have no names" "${break_even[@]}" --epilogue '*=bias'
expect 2 "not of the form MxK" "$sparsmith" bench --break-even 96
expect 2 "the lower one first" "${break_even[@]}" --from 0.9 --to 0.5
# What was found before an interruption stays.
"$sparsmith" bench --break-even 512x512 --points 3 --device emulator --no-cache --tokens 1,2,4,8,16,32,64,128,256 --json \
  >found.json 2>found.log &
until grep -q "N = 1: break-even" found.log || ! kill -0 $!; do sleep 0.05; done
kill $!
code=0
wait $! || code=$?
[[ $code == 1 ]]
grep -q "nothing is said of N = " found.log
grep -q '"sparse_at":.*"tokens":1' found.json

# Recorded spaces.
expect 0 predicted "$sparsmith" tune model.safetensors -o other.safetensors --strategy exhaustive --candidates 8 \
  --device emulator --no-cache
expect 2 strategy "$sparsmith" tune model.safetensors -o other.safetensors --strategy best
spaces=$seeds/recorded_space/two_runs.jsonl
expect 0 "w 64x96 N=8  *2 " "$sparsmith" space list "$spaces"
expect 0 "race: geometric mean 1.000, worst run 1.000" "$sparsmith" space simulate "$spaces"
# The second candidate has the best prediction; here it passes, and is slower.
sed '/b256/{s/"wrong"/"ok"/;s/"samples_us":\[\]/"samples_us":[6,6.5,7]/;s/null/0.5/;s/"reason":"[^"]*",//}' "$spaces" \
  >misjudged.jsonl
expect 0 "predicted choice: geometric mean 1.253, worst 1.253" "$sparsmith" space simulate misjudged.jsonl
expect 0 '"best_found_over_best"' "$sparsmith" space simulate "$spaces" --json
expect 0 "1 spaces" "$sparsmith" space join "$spaces" -o joined.jsonl.gz
expect 2 "there already" "$sparsmith" space join "$spaces" -o joined.jsonl.gz
expect 0 "t4/space00_64x96_n8.t4.json" "$sparsmith" space export-t4 joined.jsonl.gz -o t4
expect 3 "bad.safetensors: line 1" "$sparsmith" space list bad.safetensors
expect 3 "no weight of the models has its pattern" "$sparsmith" space predict "$spaces" --model model.safetensors \
  -o predicted.jsonl.gz

# Groups: one weight of several, by name and in JSON; members are known, and are no weights of their own.
for layer in 0 1; do
  for part in q k v; do weights+=(--weight "layers.$layer.attention.$part.weight:64x256:0.95:lognormal:0.5"); done
  weights+=(--weight "layers.$layer.output.weight:256x64:0.95:uniform")
done
"$sparsmith" synth -o layers.safetensors --seed 2 "${weights[@]}" >/dev/null
tune=("$sparsmith" tune layers.safetensors -o groups.safetensors --tokens 1 --device emulator --cache tune.db)
qkv='qkv:*.q.weight,*.k.weight,*.v.weight'
expect 0 "whole model, one call of each of 4 weights" "${tune[@]}" --group "$qkv" --epilogue bias
expect 0 "group layers.1.attention.qkv: layers.1.attention.q.weight, layers.1.attention.k" \
  "$sparsmith" show groups.safetensors
expect 0 "rows 64 to 127  layers.0.attention.k.weight" \
  "$sparsmith" show groups.safetensors --tensor layers.0.attention.qkv
expect 0 '"first_row":64,"name":"layers.0.attention.k.weight","rows":64' \
  "$sparsmith" show groups.safetensors --tensor layers.0.attention.qkv --json
expect 0 'correct\|nothing to check' "$sparsmith" run groups.safetensors --tensor layers.0.attention.qkv \
  --device emulator --check --model layers.safetensors
for command in show run; do
  expect 3 "rows 64 to 127 of group layers.0.attention.qkv" \
    "$sparsmith" $command groups.safetensors --tensor layers.0.attention.k.weight
done
expect 0 '"members":.*"name":"layers.0.attention.q.weight"' "$sparsmith" bench layers.safetensors --group "$qkv" \
  --epilogue bias --device emulator --cache tune.db --json
expect 2 "matches members of groups, .* give the name of the group, layers.1.attention.qkv" \
  "${tune[@]}" --group "$qkv" --epilogue '*.q.weight=bias'
expect 0 "whole model" "${tune[@]}" --group "$qkv" --epilogue '*.qkv=bias'
expect 0 'qkv".*_bias".*output.weight".*_none"' "$sparsmith" show groups.safetensors --json
# Beside it, weights that are in no group, and a group that is not sparse enough.
expect 0 "whole model, one call of each of 2 weights" "${tune[@]}" --group "$qkv" --include '*.0.*'
expect 1 "95.0 % of group layers.0.attention.qkv is zero" "${tune[@]}" --group "$qkv" --min-sparsity 0.99 --full
expect 2 "at least two members" "${tune[@]}" --group 'qkv:*.q.weight'
expect 2 "but no layers.1.attention.k.weight to go with it: an --exclude" "${tune[@]}" --group "$qkv" \
  --exclude '*.1.attention.k.*'
expect 2 "takes 256 features and layers.0.output.weight takes 64" "${tune[@]}" \
  --group 'all:layers.0.attention.q.weight,layers.0.output.weight'
expect 2 "is in group layers.0.attention.qkv already" "${tune[@]}" --group "$qkv" --group 'qk:*.q.weight,*.k.weight'
expect 2 "a tensor of the file has that name" "${tune[@]}" --group 'k.weight:*.q.weight,*.v.weight'

# Tensor parallelism: a file for each rank.
ranks=("$sparsmith" tune layers.safetensors -o parts.tuned.safetensors --tokens 1 --device emulator --cache tune.db
  --tensor-parallel 2)
split='a/4:rows=layers.*.attention.q.weight,columns=layers.*.output.weight'
expect 0 " 1 .*parts.rank1.tuned.safetensors" "${ranks[@]}" --split "$split"
expect 0 "rank 1 of 2" "$sparsmith" show parts.rank1.tuned.safetensors
expect 0 "rank 0 of 2: columns, units 0 to 1 of 4" \
  "$sparsmith" show parts.rank0.tuned.safetensors --tensor layers.0.output.weight
expect 0 'correct\|nothing to check' "$sparsmith" run parts.rank1.tuned.safetensors --tensor layers.1.output.weight \
  --device emulator --check
expect 2 "split" "${ranks[@]}"
expect 2 "tensor-parallel" "${tune[@]}" --split "$split"
expect 2 "transpose" "${ranks[@]}" --split "$split" --transpose
expect 2 "ranks do not share their memory" "${ranks[@]}" --split "$split" --memory 3GB
expect 2 "epilogue relu: split layers.0.a cuts layers.0.output.weight by columns" \
  "${ranks[@]}" --split "$split" --epilogue relu
expect 0 '"weights":."layers.0.output.weight"' "${ranks[@]}" --split "$split" --units 8 --json
expect 0 "2 (weight, N) pairs: 2 from the cache" "${ranks[@]}" --split "$split" --only layers.0.output.weight
rm parts.rank0.tuned.safetensors
echo "not a tuned file" >parts.rank1.tuned.safetensors
expect 2 "parts.rank1.tuned.safetensors" "${ranks[@]}" --split "$split"
echo "all commands behave"
