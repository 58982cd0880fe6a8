#!/usr/bin/env python3
"""Whether what fault_plants.sh ran came to its end, and to the same choices. usage: fault_plants_check.py OUTPUT DEVICE

Prints what each run rejected and chose and a line for each check, and exits with 1 where one does not hold.
"""

import json
import os
import pathlib
import sys

NOISE = 1.03  # that two runs without faults may differ by
SHARED = 1.06  # packings are kept for all N of a weight together: a fault at one N may cost the others as much again
SECONDS_A_FAULT = 5

# What a rejection is called, by the fault.
DOWN, LATE, WRONG = "took the worker down", "did not come back in time", "wrong result"
COMPILER, MEMORY = "does not compile", "out of device memory"
COMPILER_DOWN, COMPILER_LATE = "took the compiler down", "the compiler did not come back in time"
ON_A_GPU = {
    "address": DOWN,
    "endless": LATE,
    "wrong": WRONG,
    "source": COMPILER,
    "assembly": COMPILER,
    "trap": DOWN,
    "memory": MEMORY,
    "crash": COMPILER_DOWN,
    "hang": COMPILER_LATE,
}
# It sees for itself what a kernel touches, and goes on.
ON_THE_EMULATOR = ON_A_GPU | {"address": WRONG}


class Run:
    def __init__(self, folder, name):
        self.name = name
        self.exit = int((folder / f"{name}.exit").read_text())
        text = (folder / f"{name}.json").read_text()
        self.result = json.loads(text) if self.exit == 0 else {}
        self.seconds = self.result.get("seconds", 0)
        self.rejected = self.result.get("rejected", {})
        self.choices = {
            (weight["name"], choice["tokens"]): choice
            for weight in self.result.get("weights", [])
            for choice in weight["choices"]
        }


class Verdict:
    failed = False

    def expect(self, holds, what, found=""):
        print(f"{'ok    ' if holds else 'FAILED'} {what}{': ' if found else ''}{found}")
        self.failed = self.failed or not holds


def is_fault(outcome, faults):
    return outcome in faults.values()


def faults_of(run, plain, faults):
    """(weight, N) -> configs that failed here and not without faults."""
    found = {}
    for pair, choice in run.choices.items():
        before = {trial["config"]: trial["outcome"] for trial in plain.choices.get(pair, {}).get("trials") or []}
        found[pair] = {
            trial["config"]
            for trial in choice.get("trials") or []
            if is_fault(trial["outcome"], faults) and not is_fault(before.get(trial["config"], ""), faults)
        }
    return found


def total_us(run, weight):
    return sum(choice["timing"]["median_us"] for (name, _), choice in run.choices.items() if name == weight)


def compared(pair, plain, run, hit):
    """How the choice relates to the plain one, and whether that is as it should be."""
    before, now = plain.choices[pair], run.choices[pair]
    ratio = now["timing"]["median_us"] / before["timing"]["median_us"]
    how = f"{before['timing']['median_us']:.2f} -> {now['timing']['median_us']:.2f} us"
    if before["config"] == now["config"]:
        return True, f"the same, {how}"
    if ratio <= NOISE:
        return True, f"another one, {how}"
    if before["config"] in hit[pair]:
        return True, f"another one, {how}: the plain choice was hit"
    others = [other for other in hit if other[0] == pair[0] and other != pair]
    if ratio <= SHARED and any(plain.choices[other]["config"] in hit[other] for other in others):
        return True, f"another one, {how}: the choice for another N was hit"
    # All N of a weight are chosen together: packings may be no larger than the dense weight.
    together = total_us(run, pair[0]) / total_us(plain, pair[0])
    if together <= NOISE:
        return True, f"another one, {how}; all N of the weight take {together:.3f} of the plain time"
    return False, f"another one, {how}, {before['config']} -> {now['config']}"


def check_run(verdict, plain, run, faults):
    """Returns how many candidates failed by a fault."""
    verdict.expect(run.exit == 0, f"{run.name}: ends with exit code 0", str(run.exit))
    if run.exit != 0:
        return 0
    verdict.expect(bool(run.result["complete"]), f"{run.name}: complete")
    verdict.expect(set(run.choices) == set(plain.choices), f"{run.name}: a choice for every weight and N")
    right = all(choice["max_error_over_bound"] <= 1 for choice in run.choices.values() if "config" in choice)
    verdict.expect(right, f"{run.name}: every choice is verified")
    hit = faults_of(run, plain, faults)
    for pair in sorted(set(run.choices) & set(plain.choices)):
        holds, how = compared(pair, plain, run, hit)
        verdict.expect(holds, f"{run.name}: {pair[0]} N={pair[1]}", how)
    return sum(len(configs) for configs in hit.values())


def rejections(run, plain):
    """How many more of each there are than without faults."""
    reasons = set(run.rejected) | set(plain.rejected)
    return {reason: run.rejected.get(reason, 0) - plain.rejected.get(reason, 0) for reason in sorted(reasons)}


def main():
    folder, device = pathlib.Path(sys.argv[1]), sys.argv[2]
    faults = ON_THE_EMULATOR if device == "emulator" else ON_A_GPU
    chosen = os.environ.get("SPARSMITH_PLANT_FAULTS")
    planted = chosen.split(",") if chosen else list(faults)
    verdict = Verdict()
    plain = Run(folder, "plain")
    verdict.expect(plain.exit == 0 and plain.choices, "plain: ends with exit code 0", str(plain.exit))
    met = {}
    for path in sorted(folder.glob("seed_*.exit")) + sorted(folder.glob("behind_*.exit")):
        run = Run(folder, path.stem)
        count = check_run(verdict, plain, run, faults)
        more = rejections(run, plain)
        restarts = run.result.get("counts", {}).get("worker_restarts", 0)
        print(f"       {run.name}: {run.seconds:.1f} s, plain {plain.seconds:.1f} s; {restarts} workers started again;")
        print(f"       {count} candidates failed by a fault; rejections, less those of plain: {json.dumps(more)}")
        if run.name.startswith("seed_") and run.name != "seed_0":
            for reason, number in more.items():
                met[reason] = met.get(reason, 0) + number
            if count > 0 and run.exit == 0:
                each = (run.seconds - plain.seconds) / count
                verdict.expect(each <= SECONDS_A_FAULT, f"{run.name}: seconds a fault", f"{each:.2f}")
        else:
            verdict.expect(count == 0, f"{run.name}: no fault", str(count))
    kinds = sorted({faults[fault] for fault in planted})
    if device == "emulator":  # it tries too few for each kind to be met
        number = sum(met.get(kind, 0) for kind in kinds)
        verdict.expect(number > 0, "some seed has a fault", str(number))
    else:
        for kind in kinds:
            verdict.expect(met.get(kind, 0) > 0, f'some seed has "{kind}"', str(met.get(kind, 0)))
    print("FAILED" if verdict.failed else "all holds")
    return 1 if verdict.failed else 0


if __name__ == "__main__":
    sys.exit(main())
