#!/usr/bin/env bash
# perf_plants.sh and its checks, over a program that draws what it would measure: they pass where the plants show, and
# fail where they do not.
#
# usage: perf_plants_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail

tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=tests/support/expect.sh
source "$tests/support/expect.sh"

# `perf record` stores three cases: of the slots family, whose kernel uses slot_sums; of panel; and dense.
# DRAWN_<plant> in the environment is how many times as long what it touches takes.
mkdir programs
cat >programs/sparsmith <<'PROGRAM'
#!/usr/bin/env python3
import json, os, random, sys

REAL = os.environ["REAL_SPARSMITH"]
plant = os.environ.get("SPARSMITH_PLANT", "")
words = sys.argv[1:]


def option(name):
    return words[words.index(name) + 1] if name in words else None


def kernel(name, snippet, changed):
    suffix = "x" if changed else ""
    return [{"name": name, "cubin_hash": f"cubin-{name}{suffix}", "registers": 40, "spill_bytes": 0,
             "snippets": {snippet: f"hash{suffix}", "snippets/device.cuh": "hash"}}]


def factor(of):
    drawn = float(os.environ.get(f"DRAWN_{of}", "1.1"))
    return drawn if plant == of else 1.0


def case(name, us, **choice):
    samples = [us * random.gauss(1, 0.002) for _ in range(15)]
    return {"name": name, "operator": "spmm_fp16", "pattern_hash": name,
            "choices": [{"tokens": 1, "evidence": "measured", "plan_hash": "p", "packed_bytes": 9, "packing": "p",
                         "command": "bench", "timing": {"samples_us": samples}, **choice}]}


def weights():
    slots = "snippets/reduction/slot_sums.cuh"
    again = float(os.environ.get("DRAWN_again", "1")) if option("--commit") == "plain_again" else 1.0
    slowed = plant == "slow_snippet"
    chosen = "rows" if plant == "cost_model" else "slots"
    snippet = "snippets/kernels/rows.cuh" if plant == "cost_model" else slots
    yield case("uniform98", 3 * factor("slow_snippet") * factor("cost_model"),
               config=f"{chosen} threads=64", packing_hash=chosen, binaries=kernel(chosen, snippet, slowed))
    yield case("power90", 8 * factor("bank_schedule"), config="panel depth=2",
               packing_hash="worse" if plant == "bank_schedule" else "good",
               binaries=kernel("panel", "snippets/kernels/panel.cuh", False))
    yield case("uniform60", 12 * again, config="dense", binaries=[])


if words[0] == "tune":
    open(option("--cache"), "w").close()
elif words[:2] == ["perf", "record"]:
    cases = open(option("--cases")).read().split("\n") if "--cases" in words else None
    bench = []
    for each in range(json.load(open(words[2]))["rounds"]):
        wanted = [weight for weight in weights() if cases is None or f"{weight['name']} N=1" in cases]
        document = {"device": {"name": "GPU", "class": "sm_90", "driver": "570", "clock_mhz": 1980}, "nvrtc": "13.0",
                    "timing_policy": "cold_weights", "weights": wanted}
        path = f"{os.path.dirname(words[2])}/{each}.json"
        json.dump(document, open(path, "w"))
        bench += ["--bench", path]
    rest = [word for i, word in enumerate(words[3:], 3)
            if word not in ("--cache", "--cases", "--keep-choices") and words[i - 1] not in ("--cache", "--cases")]
    os.execv(REAL, [REAL, "perf", "record", *bench, *rest])
elif words[0] != "synth":
    os.execv(REAL, [REAL, *words])
PROGRAM
chmod +x programs/sparsmith
export REAL_SPARSMITH=$sparsmith

plants=("$tests/perf_plants.sh" programs evidence)
expect 0 "slow snippet: exactly the cases that use it are SLOW: uniform98 N=1" "${plants[@]}"
grep -q "bank schedule: cases of the panel family are SLOW: power90 N=1" output
grep -q "cost model: what was of the family slots is reported as another choice" output
if grep -q FAILED output; then cat output && exit 1; fi

# What does not show is missed, and says so.
DRAWN_again=1.1 expect 1 "FAILED the same build again: no SLOW" "${plants[@]}"
DRAWN_slow_snippet=1 expect 1 "FAILED slow snippet: exactly the cases that use it are SLOW" "${plants[@]}"
DRAWN_bank_schedule=1 expect 1 "FAILED bank schedule: cases of the panel family are SLOW" "${plants[@]}"
expect 2 usage "$tests/perf_plants.sh"
echo "the evidence script behaves"
