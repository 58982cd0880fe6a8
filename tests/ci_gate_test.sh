#!/usr/bin/env bash
# The scripts of examples/ci on a project of somebody else: compare_commits.sh builds a benchmark from two commits,
# whose times are drawn, and perf_gate.sh fails where the second is slower.
#
# usage: ci_gate_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail
scripts=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../examples/ci")
# shellcheck source=tests/support/expect.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/expect.sh"

# A project whose benchmark prints what Google Benchmark would, for the cases that the filter names.
git init --quiet project
cd project
git config user.name tester
git config user.email tester@example.org
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(project LANGUAGES NONE)
configure_file(benchmark.py drawn_benchmark COPYONLY)
add_custom_target(drawn_benchmark)
CMAKE
# drawn TIME: the commit whose case `layer/q+k (1)/8` takes TIME us.
drawn() {
  cat >benchmark.py <<PYTHON
#!/usr/bin/env python3
import json, random, re, sys
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
if "tuned.safetensors" not in sys.argv:
    sys.exit("usage: benchmark TUNED")
times = {"layer/q+k (1)/8": $1, "layer/q/8": 50.0}
cases = [name for name in times if re.search(options["benchmark_filter"], name)]
with open("$folder/cases", "a") as log:
    log.write(" and ".join(cases) + "\n")
benchmarks = [{"name": name, "run_type": "iteration", "time_unit": "us",
               "real_time": random.gauss(times[name], 0.003 * times[name])} for name in cases]
with open(options["benchmark_out"], "w") as output:
    json.dump({"context": {"host_name": "box", "num_cpus": 4}, "benchmarks": benchmarks}, output)
PYTHON
  chmod +x benchmark.py
  git add .
  git commit --quiet --allow-empty -m "$1 us"
}
drawn 20
drawn 20
drawn 21.2

export SPARSMITH=$sparsmith PERF_TARGET=drawn_benchmark PERF_DB=$folder/perf.db PERF_TURNS=8
expect 2 usage "$scripts/compare_commits.sh" HEAD
expect 1 "usage: benchmark TUNED" "$scripts/compare_commits.sh" HEAD~ HEAD
export PERF_ARGUMENTS=tuned.safetensors
expect 0 "0 SLOW, 0 FAST, 0 AMBIGUOUS, 2 SAME" "$scripts/compare_commits.sh" HEAD~2 HEAD~
rm "$folder/cases"
expect 5 "1 SLOW, 0 FAST, 0 AMBIGUOUS, 1 SAME" "$scripts/compare_commits.sh" HEAD~ HEAD
grep -q '<failure type="SLOW"' perf-report/junit.xml
grep -q '| SLOW ' perf-report/report.md
# Only the suspect was measured again.
[[ $(sort "$folder/cases" | uniq -c | tr -s ' ' | sort) == $' 16 layer/q+k (1)/8\n 16 layer/q+k (1)/8 and layer/q/8' ]]
expect 1 "no commit no-such" "$scripts/compare_commits.sh" HEAD no-such
[[ $(git worktree list | wc -l) == 1 ]]
echo "the gate of a project behaves"
