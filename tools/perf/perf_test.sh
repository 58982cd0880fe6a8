#!/usr/bin/env bash
# The performance history as CI uses it, on times that are drawn.
#
# usage: perf_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

gate=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../../examples/ci/perf_gate.sh")
# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tests/support/expect.sh"

# bench_json FILE SEED US CUBIN CONFIG PACKING: what `bench --json` prints for two cases; the first takes US, the other 50.
bench_json() {
  awk -v seed="$2" -v us="$3" -v cubin="$4" -v config="$5" -v packing="$6" '
    function normal(  i, sum) { sum = 0; for (i = 0; i < 12; ++i) sum += rand(); return sum - 6 }
    function choice(name, us, cubin, config, packing,  i, samples) {
      for (i = 0; i < 15; ++i) samples = samples (i ? "," : "") us * (1 + 0.005 * normal())
      return sprintf("{\"name\":\"%s\",\"operator\":\"spmm_fp16\",\"pattern_hash\":\"w\",\"choices\":[{\"tokens\":8," \
        "\"kind\":\"generated\",\"evidence\":\"measured\",\"config\":\"%s\",\"packing\":\"csr\",\"packing_hash\":\"%s\"," \
        "\"packed_bytes\":1000,\"plan_hash\":\"p\",\"command\":\"sparsmith bench m --include %s\"," \
        "\"timing\":{\"samples_us\":[%s]},\"binaries\":[{\"name\":\"k\",\"cubin_hash\":\"%s\",\"registers\":%d," \
        "\"spill_bytes\":0,\"snippets\":{\"snippets/prolog/csr_row.cuh\":\"%s\"}}]}]}",
        name, config, packing, name, samples, cubin, cubin == "c0" ? 40 : 64, cubin)
    }
    BEGIN {
      srand(seed)
      printf "{\"device\":{\"name\":\"GPU\",\"class\":\"sm_90\",\"driver\":\"570\",\"clock_mhz\":1980},\"nvrtc\":\"13.0\","
      printf "\"timing_policy\":\"cold_weights\",\"weights\":["
      printf "%s,", choice("fc1", us, cubin, config, packing)
      printf "%s]}\n", choice("fc2", 50, "d0", "slots threads=64", "p2")
    }' >"$1"
}

# record COMMIT US CUBIN CONFIG PACKING OPTION...: eight rounds.
seed=0
record() {
  local commit=$1 us=$2 cubin=$3 config=$4 packing=$5 files=()
  shift 5
  for round in 1 2 3 4 5 6 7 8; do
    seed=$((seed + 1))
    bench_json "round$round.json" $seed "$us" "$cubin" "$config" "$packing"
    files+=(--bench "round$round.json")
  done
  expect 0 "2 cases, 16 rounds, 240 samples" "$sparsmith" perf record "${files[@]}" --commit "$commit" "$@"
}

rows="rows threads=128 width=4"
record aaaa1 20 c0 "$rows" p1 --branch main
record aaaa2 20 c0 "$rows" p1 --branch main
record bbbb1 21 c1 "$rows" p1
record cccc1 21 c0 "$rows" p9
record dddd1 21 c1 "rows threads=256 width=4" p1
record eeee1 19 c1 "$rows" p1

# The same code twice: nothing to say.
expect 0 "0 SLOW, 0 FAST, 0 AMBIGUOUS, 2 SAME" "$sparsmith" perf compare aaaa1 main --fail-on slow

# Noise that hides what counts asks for more rounds.
for round in 1 2 3 4 5 6 7 8; do
  bench_json noisy.json $round $((18 + round % 3)) c0 "$rows" p1
  expect 0 "2 rounds" "$sparsmith" perf record --bench noisy.json --commit 77777 --db noisy.db
  bench_json noisy.json $round $((18 + (round + 1) % 3)) c1 "$rows" p1
  expect 0 "2 rounds" "$sparsmith" perf record --bench noisy.json --commit 88888 --db noisy.db
done
expect 0 "(1 in need of more rounds), 1 SAME" "$sparsmith" perf compare 77777 88888 --unsure unsure.txt --db noisy.db
[[ $(cat unsure.txt) == "fc1 N=8" ]]
grep -q "52 more rounds a side would tell" output

# A slower kernel: suspected, measured again, said.
expect 0 "1 AMBIGUOUS (1 to be measured again), 1 SAME" "$sparsmith" perf compare aaaa1 bbbb1 --fail-on slow \
  --suspects suspects.txt
[[ $(cat suspects.txt) == "fc1 N=8" ]]
record aaaa1 20 c0 "$rows" p1 --again --branch main
record bbbb1 21 c1 "$rows" p1 --again
expect 5 "1 SLOW, 0 FAST, 0 AMBIGUOUS, 1 SAME" "$sparsmith" perf compare aaaa1 bbbb1 --fail-on slow --junit junit.xml
grep -q "changed: snippets/prolog/csr_row.cuh" output
grep -q "registers: 40 -> 64" output
grep -q "measure it: sparsmith bench m --include fc1" output
grep -q '<failure type="SLOW"' junit.xml
grep -q 'tests="2" failures="1" skipped="0"' junit.xml
python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' junit.xml
expect 0 "1 SLOW" "$sparsmith" perf compare aaaa1 bbbb1
grep -q "fc2 N=8" output && { echo "FAILED: what is the same is listed"; exit 1; }
expect 0 "SAME  *fc2 N=8" "$sparsmith" perf compare aaaa1 bbbb1 --all
expect 5 '| SLOW ' "$sparsmith" perf compare aaaa1 bbbb1 --markdown --fail-on kernel
expect 5 '"cause":"kernel"' "$sparsmith" perf compare aaaa1 bbbb1 --json --fail-on kernel

# A worse packing with the same binary; and another choice, which is no slower kernel.
record cccc1 21 c0 "$rows" p9 --again
expect 5 "packed contents: p1 -> p9" "$sparsmith" perf compare aaaa1 cccc1 --fail-on kernel
grep -q "SLOW .* packing" output
record dddd1 21 c1 "rows threads=256 width=4" p1 --again
expect 0 "the tuner chooses otherwise" "$sparsmith" perf compare aaaa1 dddd1 --fail-on kernel
grep -q "threads: 128 -> 256" output
expect 5 "other choice" "$sparsmith" perf compare aaaa1 dddd1 --fail-on slow
record eeee1 19 c1 "$rows" p1 --again
expect 0 "0 SLOW, 1 FAST" "$sparsmith" perf compare aaaa1 eeee1 --fail-on slow

# Accepted, with a reason.
expect 2 reason "$sparsmith" perf mark bbbb1
expect 0 accepted "$sparsmith" perf mark bbbb1 --reason "exact sums" --author me --case "fc1 N=8"
expect 0 "accepted by me: exact sums" "$sparsmith" perf compare aaaa1 bbbb1 --fail-on slow

# As pages.
expect 0 "1 SLOW" "$sparsmith" perf compare aaaa1 bbbb1 --html compare.html
grep -q "changed: snippets/prolog/csr_row.cuh" <(sed "s/<wbr>//g" compare.html)
expect 0 "fc1 N=8" "$sparsmith" perf history --html history.html
grep -q "<title>Performance history of perf.db</title>" history.html
expect 3 "cannot create" "$sparsmith" perf history --html missing/history.html

# Another driver: not comparable, and a new segment of history.
expect 0 "recorded ffff1" "$sparsmith" perf record --bench round1.json --commit ffff1 --clocks "locked 1500 MHz"
expect 0 "clocks: 1980 MHz -> locked 1500 MHz" "$sparsmith" perf compare aaaa1 ffff1 --fail-on slow
expect 0 "from here on: GPU, driver 570, NVRTC 13.0, locked 1500 MHz" "$sparsmith" perf history --case "fc1 N=8"
expect 0 "fc2 N=8" "$sparsmith" perf history
expect 0 '{"history":\[{' "$sparsmith" perf history --json --branch main

# Sessions compare a commit with itself; few rounds tell nothing.
expect 0 recorded "$sparsmith" perf record --bench round1.json --commit aaaa1 --session one
expect 0 recorded "$sparsmith" perf record --bench round1.json --commit aaaa1 --session two
expect 0 "2 SAME\|AMBIGUOUS" "$sparsmith" perf compare aaaa1@one aaaa1@two
expect 3 "in session three" "$sparsmith" perf compare aaaa1@one aaaa1@three

# Google Benchmark.
cat >google.json <<'JSON'
{"context": {"host_name": "box", "executable": "./bench", "num_cpus": 4, "mhz_per_cpu": 3000, "cpu_scaling_enabled": false},
 "benchmarks": [
  {"name": "BM_Pack/8", "run_name": "BM_Pack/8", "run_type": "iteration", "real_time": 12.5, "time_unit": "ms"},
  {"name": "BM_Bad", "run_type": "iteration", "error_occurred": true, "error_message": "no file", "real_time": 0, "time_unit": "ns"},
  {"name": "BM_Pack/8_mean", "run_type": "aggregate", "real_time": 12.5, "time_unit": "ms"}]}
JSON
expect 0 "1 cases, 1 rounds, 1 samples" "$sparsmith" perf record --google-benchmark google.json --commit aaaa1
grep -q "not recorded: BM_Bad: no file" output
expect 0 12500.000 "$sparsmith" perf history --case BM_Pack/8
sed 's/12\.5/10/' google.json >faster.json
expect 0 "1 cases" "$sparsmith" perf record --google-benchmark google.json --commit aaaa1 --db two.db \
  --committed-at 2026-01-01T00:00:00Z
expect 0 "1 cases" "$sparsmith" perf record --google-benchmark faster.json --commit aaaa2 --db two.db \
  --committed-at 2026-01-02T00:00:00Z
expect 0 "BM_Pack/8 .* 2  *12500.000  *10000.000 " "$sparsmith" perf history --db two.db

# What goes wrong says so.
expect 2 "commit" "$sparsmith" perf record --bench round1.json
expect 2 "give one of" "$sparsmith" perf record --commit x1
expect 3 "not what" "$sparsmith" perf record --bench google.json --commit x1
expect 3 "not what" "$sparsmith" perf record --google-benchmark round1.json --commit x1
expect 3 "nothing is recorded of a commit or branch 'zzzz'" "$sparsmith" perf compare aaaa1 zzzz
expect 2 "abbreviates 2" "$sparsmith" perf compare aaaa bbbb1
expect 3 "no performance history there" "$sparsmith" perf compare aaaa1 bbbb1 --db missing.db
expect 3 "not a performance history" "$sparsmith" perf record --bench round1.json --commit x1 --db google.json

# A suite, where nothing can be timed: it says so, and stores nothing.
cat >suite.json <<'JSON'
{"name": "small", "rounds": 2, "devices": "emulator",
 "weights": [{"name": "drawn", "synth": {"shape": [64, 96], "sparsity": 0.9}, "tokens": [1]}]}
JSON
expect 4 "predictions are not recorded" "$sparsmith" perf record suite.json --commit x1 --db suite.db
expect 3 "no case of the suite" "$sparsmith" perf record suite.json --commit x1 --db suite.db --only "other N=1"
echo '{"weights": [{"file": "a", "token": [1]}]}' >bad.json
expect 3 'bad.json: weights\[0\]: unknown key "token"' "$sparsmith" perf record bad.json --commit x1 --db suite.db
expect 3 "nothing is recorded" "$sparsmith" perf history --db suite.db
# The gate of examples/ci, over programs that draw what they would measure: head is 6 % slower, or not.
program() {  # NAME US CUBIN: makes a program whose `perf record SUITE ...` records drawn times
  declare -f bench_json >"$1.functions"
  cat >"$1" <<PROGRAM
#!/usr/bin/env bash
set -euo pipefail
if [[ \$2 == record ]]; then
  source "$PWD/$1.functions"
  options=() files=()
  for ((i = 4; i <= \$#; ++i)); do
    case \${!i} in
      --cache|--cases) i=\$((i + 1)) ;;
      *) options+=("\${!i}") ;;
    esac
  done
  bench_json "$PWD/$1.json" \$RANDOM $2 $3 "$rows" p1
  files+=(--bench "$PWD/$1.json")
  exec "$sparsmith" perf record "\${files[@]}" "\${options[@]}"
fi
exec "$sparsmith" "\$@"
PROGRAM
  chmod +x "$1"
}
program old 20 c0
program new 21.2 c1
export PERF_DB=gate.db
expect 5 "1 SLOW, 0 FAST, 0 AMBIGUOUS, 1 SAME" "$gate" 1111aaaa ./old 2222bbbb ./new suite.json
grep -q '<failure type="SLOW"' perf-report/junit.xml
grep -q '"cause":"kernel"' perf-report/report.json
grep -q '"base_rounds":30,' perf-report/report.json
grep -q '"paired":true' perf-report/report.json
expect 0 "0 SLOW, 0 FAST, 0 AMBIGUOUS, 2 SAME" "$gate" 1111aaaa ./old 3333cccc ./old suite.json
expect 2 usage "$gate"
echo "perf behaves"
