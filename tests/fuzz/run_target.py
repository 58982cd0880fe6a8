#!/usr/bin/env python3
"""One fuzz target for some seconds, and the summary of several: parts of run_all.sh.

usage: run_target.py BUILD OUTPUT SECONDS TARGET        writes OUTPUT/results/TARGET.json and prints a line
       run_target.py --summary BUILD OUTPUT TARGET...         prints the totals; exit status 1 after a finding
"""

import json
import pathlib
import re
import subprocess
import sys
import time

LIMITS = ["-timeout=25", "-rss_limit_mb=2560", "-malloc_limit_mb=1024"]
GRACE_S = 120  # for reading the corpus and ending


def seeds_of(build: pathlib.Path, target: str) -> list[str]:
    lines = (build / "fuzz_targets.txt").read_text().splitlines()
    return next((line.split("\t")[1:] for line in lines if line.split("\t")[0] == target), [])


def seed_folder(output: pathlib.Path, target: str, seeds: list[str]) -> pathlib.Path:
    """libFuzzer takes folders: one of links to the seeds."""
    folder = output / "seeds" / target
    folder.mkdir(parents=True, exist_ok=True)
    for seed in map(pathlib.Path, seeds):
        for file in seed.iterdir() if seed.is_dir() else [seed]:
            link = folder / file.name
            link.unlink(missing_ok=True)
            link.symlink_to(file)
    return folder


def fuzz(build: pathlib.Path, output: pathlib.Path, seconds: int, target: str) -> dict:
    corpus, findings = output / "corpus" / target, output / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(parents=True, exist_ok=True)
    before = set(findings.iterdir())
    program = build / "bin" / target
    command = [str(program), f"-max_total_time={seconds}", "-print_final_stats=1", *LIMITS,
               f"-artifact_prefix={findings}/{target}-", str(corpus),
               str(seed_folder(output, target, seeds_of(build, target)))]  # fmt: skip
    result = {"target": target, "executions": 0, "coverage": [0, 0], "quiet_s": 0, "finding": ""}
    begin = last_new = time.monotonic()
    tail: list[str] = []
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, errors="replace", **pipes) as child:
        for line in child.stderr:
            tail = [*tail[-60:], line]
            if line.startswith("INFO: seed corpus") or " INITED " in line:
                begin = last_new = time.monotonic()
            if found := re.match(r"#(\d+)\s+(\w+)\s+cov: (\d+)", line):
                result["executions"] = int(found.group(1))
                coverage = int(found.group(3))
                if found.group(2) == "INITED":
                    result["coverage"] = [coverage, coverage]
                elif coverage > result["coverage"][1]:
                    result["coverage"][1] = coverage
                    last_new = time.monotonic()
            if found := re.match(r"stat::number_of_executed_units: (\d+)", line):
                result["executions"] = int(found.group(1))
            if time.monotonic() > begin + seconds + GRACE_S:
                child.kill()
    result["quiet_s"] = round(time.monotonic() - last_new)
    result["seconds"] = round(time.monotonic() - begin)
    if child.returncode != 0:
        inputs = sorted(str(file) for file in set(findings.iterdir()) - before)
        result["finding"] = inputs[-1] if inputs else "no input was kept"
        result["words"] = next((line.strip() for line in tail if re.search(r"ERROR:|runtime error|SUMMARY", line)), "")
        (output / "results" / f"{target}.log").write_text("".join(tail))
    return result


def line_of(result: dict) -> str:
    first, last = result["coverage"]
    text = (f"{result['target']:<28}{result['executions']:>12} runs   coverage {first:>6} to {last:>6}   "
            f"nothing new for {result['quiet_s']:>5} s of {result['seconds']:>5}")  # fmt: skip
    return text + ("   BROKEN" if result["finding"] else "")


def summary(build: pathlib.Path, output: pathlib.Path, targets: list[str]) -> int:
    results, missing = [], []
    for target in targets:
        file = output / "results" / f"{target}.json"
        if file.exists():
            results.append(json.loads(file.read_text()))
        else:
            missing.append(target)
    print(f"fuzz: {sum(result['executions'] for result in results)} runs of {len(results)} targets")
    for result in results:
        if result["finding"]:
            program = build / "bin" / result["target"]
            print(f"fuzz: {result['target']} breaks: {result['words']}\n  {program} {result['finding']}")
            print(f"  log: {output}/results/{result['target']}.log")
    for target in missing:
        print(f"fuzz: {target} has no result")
    return 1 if missing or any(result["finding"] for result in results) else 0


def main() -> None:
    if sys.argv[1] == "--summary":
        sys.exit(summary(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:]))
    build, output, seconds, target = sys.argv[1:5]
    result = fuzz(pathlib.Path(build), pathlib.Path(output), int(seconds), target)
    (pathlib.Path(output) / "results" / f"{target}.json").write_text(json.dumps(result))
    print(line_of(result), flush=True)


if __name__ == "__main__":
    main()
