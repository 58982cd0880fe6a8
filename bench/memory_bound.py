#!/usr/bin/env python3
"""What a bound of memory costs: a drawn model, tuned without one and with 1x, as a Markdown table on stdout.

    memory_bound.py --json out.json                            a Llama-shaped block: seven weights, five sparsities
    memory_bound.py --shapes 256x128 --sparsities 0.9 -- --device emulator

Times of a row are summed over the weights: dense, tuned within 1x, and tuned without a bound, all of one run on one
device. "Worst" is the slowest weight of the row over its dense product; no weight may take more bytes than dense, and
none more than 1.03x dense's time: the exit code is 1 where one does. What follows -- goes to `sparsmith tune`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

# q, k, v, o, gate, up, down of Llama 3 8B (Grattafiori et al., 2024).
SHAPES = "4096x4096,1024x4096,1024x4096,4096x4096,14336x4096,14336x4096,4096x14336"
MOST_SLOWER = 1.03


def tune(program, model, memory, tokens, cache, more):
    command = [program, "tune", model, "-o", f"{model}.{memory}.tuned", "--force", "--tokens", tokens, "--memory", memory,
               "--cache", cache, "--json", *more]
    begin = time.time()
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {run.returncode}: {run.stderr.strip()[-600:]}")
    result = json.loads(run.stdout)
    print(f"{memory}: {time.time() - begin:.0f} s on {result['device']['name']}", file=sys.stderr)
    return result["weights"]


def rows_of(bound, free):
    """A row for each N: sums over weights, and the worst weight."""
    rows = {}
    for weight, other in zip(bound, free, strict=True):
        for choice, unbound in zip(weight["choices"], other["choices"], strict=True):
            row = rows.setdefault(choice["tokens"], {"dense": 0, "tuned": 0, "free": 0, "worst": 0, "weight": ""})
            us, dense = choice["timing"]["median_us"], choice["dense_us"]
            row["dense"] += dense
            row["tuned"] += us
            row["free"] += unbound["timing"]["median_us"]
            if us / dense > row["worst"]:
                row.update(worst=us / dense, weight=weight["name"])
    return rows


def main():
    own, more = sys.argv[1:], []
    if "--" in own:
        own, more = own[:own.index("--")], own[own.index("--") + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="sparsmith")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--sparsities", default="0.5,0.7,0.8,0.9,0.99")
    parser.add_argument("--tokens", default="1,8,64,512")
    parser.add_argument("--dtype", default="fp16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="all results, as the two runs print them")
    arguments = parser.parse_args(own)

    print("| zeros | N | bytes / dense | bytes without a bound | us dense | us within 1x | us without a bound "
          "| dense / tuned | lost to the bound | worst |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    everything, broken, kinds = {}, [], set()
    with tempfile.TemporaryDirectory() as folder:
        for sparsity in arguments.sparsities.split(","):
            model = os.path.join(folder, f"{sparsity}.safetensors")
            command = [arguments.program, "synth", "-o", model, "--dtype", arguments.dtype, "--seed",
                       str(arguments.seed)]
            for i, shape in enumerate(arguments.shapes.split(",")):
                command += ["--weight", f"{i}_{shape}:{shape}:{sparsity}:lognormal:0.5"]
            subprocess.run(command, check=True, capture_output=True)
            cache = os.path.join(folder, "cache.db")
            free = tune(arguments.program, model, "16x", arguments.tokens, cache, more)
            bound = tune(arguments.program, model, "1x", arguments.tokens, cache, more)
            everything[sparsity] = {"bound": bound, "free": free}
            kinds |= {choice["evidence"] for weight in bound + free for choice in weight["choices"]}
            dense_bytes = sum(weight["dense_bytes"] for weight in bound)
            shares = [sum(weight["gpu_bytes"] for weight in each) / dense_bytes for each in (bound, free)]
            broken += [f"{weight['name']} at {sparsity} takes {weight['gpu_bytes'] / weight['dense_bytes']:.3f}x the bytes"
                       for weight in bound if weight["gpu_bytes"] > weight["dense_bytes"]]
            for tokens, row in sorted(rows_of(bound, free).items()):
                print(f"| {100 * float(sparsity):g} % | {tokens} | {shares[0]:.2f} | {shares[1]:.2f} | {row['dense']:.1f} "
                      f"| {row['tuned']:.1f} | {row['free']:.1f} | {row['dense'] / row['tuned']:.2f} "
                      f"| {row['tuned'] / row['free']:.2f} | {row['worst']:.2f} ({row['weight']}) |", flush=True)
                if row["worst"] > MOST_SLOWER:
                    broken.append(f"{row['weight']} at {sparsity}, N = {tokens} takes {row['worst']:.3f}x dense's time")
    print(f"\nTimes are {' and '.join(sorted(kinds))}; {arguments.dtype}, seed {arguments.seed}.")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(everything, file)
    for each in broken:
        print(each, file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
