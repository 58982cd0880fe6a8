#!/usr/bin/env python3
"""Measures many (weight, N) cells with `sparsmith bench`, one JSON line a cell, and sums them up.

    cells.py drawn --seed 1 --weights 32 -o cells.jsonl     seeded draw over shapes, sparsities, distributions, types
    cells.py files -o cells.jsonl --tokens 1,32,128 A.smtx B.safetensors ...
    cells.py report cells.jsonl                             Markdown: a table, geometric means, the worst cells

The weights of one file are cells of their own. `drawn` and `files` append; a drawn weight or a file that the output
already has is not measured again, so that a run that was cut short goes on. Options after -- go to `sparsmith bench`:
cells.py files -o c.jsonl A.smtx -- --dtype fp16 --memory 2x
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

# What `drawn` draws from, unless told otherwise.
SHAPES = "4096x4096,8192x8192,8192x32768,32768x8192,11008x4096,28672x8192"
SPARSITIES = "0.9,0.95,0.98,0.99,0.999"
DISTRIBUTIONS = "uniform,lognormal:0.5,lognormal:1.0,power:1"
TYPES = "fp16,fp32"
TOKENS = "1,8,32,128,512"
PEERS = ("cublas", "cusparse")


def draw(arguments):
    """Distinct weights, drawn evenly: (shape, sparsity, distribution, type)."""
    values = (arguments.shapes, arguments.sparsities, arguments.distributions, arguments.types)
    space = list(itertools.product(*(each.split(",") for each in values)))
    return random.Random(arguments.seed).sample(space, min(arguments.weights, len(space)))


def measured(path, key):
    """What the cells of the file at `path` have as their `key`, those of earlier versions as their source."""
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as lines:
        cells = [json.loads(line) for line in lines]
    return {cell.get(key, cell["source"]) for cell in cells}


def vendor_timing(choice, name):
    """Of what is measured beside the choice; dense is cuBLASLt's product, with a kernel of ours behind it where the
    library lacks the epilogue."""
    known = {vendor["name"]: vendor for vendor in choice["vendors"]
             if vendor["supported"] and vendor["timing"]["median_us"] > 0}
    vendor = known.get("dense" if name == "cublas" else name)
    if vendor is None:
        return None
    return dict(vendor["timing"], own_layout_us=vendor.get("own_layout_us"), detail=vendor["detail"])


def cells_of(result, file):
    """`file`: what the weight is called by, where it is alone in it."""
    for weight in result["weights"]:
        source = file if len(result["weights"]) == 1 else weight["name"]
        for choice in weight["choices"]:
            cell = {"file": file, "source": source, "weight": weight["name"], "rows": weight["M"], "cols": weight["K"],
                    "max_error_over_bound": choice["max_error_over_bound"], "device": result["device"]["name"],
                    **{name: weight[name] for name in ("nnz", "sparsity", "operator")},
                    **{name: choice[name] for name in ("tokens", "config", "packing", "evidence", "timing")}}
            for name in PEERS:
                cell[name] = vendor_timing(choice, name)
            yield cell


def bench(arguments, path, file, output):
    begin = time.time()
    command = [arguments.program, "bench", path, "--json", "--vs", arguments.peers, "--tokens", arguments.tokens]
    run = subprocess.run(command + arguments.bench_options, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        print(f"{file}: exit code {run.returncode}: {run.stderr.strip()[-400:]}", file=sys.stderr)
        return
    result = json.loads(run.stdout)
    with open(output, "a", encoding="utf-8") as lines:
        lines.writelines(json.dumps(cell) + "\n" for cell in cells_of(result, file))
    counts = result["counts"]
    print(f"{file}: {time.time() - begin:.1f} s, {counts['compile_seconds']:.1f} compiling, "
          f"{counts['verify_seconds']:.1f} verifying, {counts['timing_seconds']:.1f} timing, "
          f"{counts['library_seconds']:.1f} in libraries", file=sys.stderr)


def name_of(weight):
    return " ".join(weight).replace(":", " ")


def run_drawn(arguments):
    done = measured(arguments.output, "source")
    # Of one type, which share a run: one is packed while another one is measured. Where a run goes on, groups and seeds
    # are those of the first.
    groups = []
    for dtype in arguments.types.split(","):
        drawn = [weight for weight in draw(arguments) if weight[-1] == dtype]
        groups += [drawn[i:i + arguments.together] for i in range(0, len(drawn), arguments.together)]
    wanted = [(seed, group) for seed, group in enumerate(groups, 1000 * arguments.seed)
              if not {name_of(weight) for weight in group} <= done]

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(1) as ahead:
        def write(index):
            seed, group = wanted[index]
            path = os.path.join(folder, f"{seed}.safetensors")
            command = [arguments.program, "synth", "-o", path, "--dtype", group[0][-1], "--seed", str(seed)]
            for weight in group:
                command += ["--weight", ":".join((name_of(weight),) + weight[:-1])]
            subprocess.run(command, check=True, capture_output=True)
            return path

        # A file is written while the one before is measured: the processor has little to do then.
        following = ahead.submit(write, 0) if wanted else None
        for index, (_, group) in enumerate(wanted):
            if time.time() > arguments.deadline:
                print("out of time", file=sys.stderr)
                return
            path = following.result()
            if index + 1 < len(wanted):
                following = ahead.submit(write, index + 1)
            bench(arguments, path, name_of(group[0]), arguments.output)
            os.remove(path)


def run_files(arguments):
    done = measured(arguments.output, "file")
    for path in arguments.files:
        source = os.path.basename(path)
        if source in done:
            continue
        if time.time() > arguments.deadline:
            print("out of time", file=sys.stderr)
            return
        bench(arguments, path, source, arguments.output)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def best_peer(cell):
    known = [cell[name] for name in PEERS if cell[name]]
    return min(known, key=lambda timing: timing["median_us"]) if known else None


def own_layout(cell, name):
    """As cell[name], of the library's best in the layout that we compute in."""
    known = cell[name] and cell[name].get("own_layout_us")
    return {"median_us": known} if known else None


def ratio(cell, timing):
    return timing["median_us"] / cell["timing"]["median_us"] if timing else None


def summary(title, cells, timing_of):
    ratios = [(ratio(cell, timing_of(cell)), cell) for cell in cells if timing_of(cell)]
    if not ratios:
        return f"- {title}: not measured"
    worst, cell = min(ratios, key=lambda pair: pair[0])
    return (f"- {title}: geometric mean {geometric_mean([r for r, _ in ratios]):.2f}x over {len(ratios)} cells, "
            f"worst {worst:.2f}x ({cell['source']}, N = {cell['tokens']})")


def run_report(arguments):
    with open(arguments.cells, encoding="utf-8") as lines:
        cells = [json.loads(line) for line in lines]
    print("| weight | zeros | N | choice | us | cublas us | cusparse us | best peer / ours |")
    print("|---|---:|---:|---|---:|---:|---:|---:|")
    for cell in cells:
        peers = " | ".join(f"{cell[name]['median_us']:.2f}" if cell[name] else "-" for name in PEERS)
        against = ratio(cell, best_peer(cell))
        choice = cell["config"].split(" ")[0]
        if cell["evidence"] != "measured":
            choice += f", {cell['evidence'].upper()}"
        print(f"| {cell['source']} | {100 * cell['sparsity']:.1f} % | {cell['tokens']} | {choice} | "
              f"{cell['timing']['median_us']:.2f} | {peers} | {f'{against:.2f}' if against else '-'} |")
    print()
    by_tokens = collections.defaultdict(list)
    for cell in cells:
        by_tokens[cell["tokens"]].append(cell)
    for tokens, some in sorted(by_tokens.items()):
        print(summary(f"N = {tokens}, against cuSPARSE", some, lambda cell: cell["cusparse"]))
        print(summary(f"N = {tokens}, against cuSPARSE in the same layout", some,
                      lambda cell: own_layout(cell, "cusparse")))
        print(summary(f"N = {tokens}, against the best of both", some, best_peer))
    print(summary("all, against cuSPARSE", cells, lambda cell: cell["cusparse"]))
    print(summary("all, against cuSPARSE in the same layout", cells, lambda cell: own_layout(cell, "cusparse")))
    print(summary("all, against the best of both", cells, best_peer))
    slower = [cell for cell in cells if best_peer(cell) and ratio(cell, best_peer(cell)) < 0.98
              and best_peer(cell)["q3_us"] < cell["timing"]["q1_us"]]
    print(f"- below 0.98x the best of both, quartiles apart: {len(slower)} of {len(cells)}")
    chosen = collections.Counter(cell["config"].split(" ")[0] for cell in cells)
    print("- chosen: " + ", ".join(f"{family} {count}" for family, count in chosen.most_common()))


def main():
    own, bench_options = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, bench_options = own[:at], own[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("drawn", "files"):
        command = commands.add_parser(name)
        command.add_argument("-o", "--output", required=True)
        command.add_argument("--program", default="sparsmith")
        command.add_argument("--tokens", default=TOKENS)
        command.add_argument("--peers", default=",".join(PEERS))
        command.add_argument("--seconds", type=float, default=math.inf, help="after which no further weight is begun")
        if name == "drawn":
            command.add_argument("--seed", type=int, default=1)
            command.add_argument("--weights", type=int, default=32)
            command.add_argument("--shapes", default=SHAPES)
            command.add_argument("--sparsities", default=SPARSITIES)
            command.add_argument("--distributions", default=DISTRIBUTIONS)
            command.add_argument("--types", default=TYPES)
            command.add_argument("--together", type=int, default=4, help="weights that one run measures at most")
        else:
            command.add_argument("files", nargs="+")
    commands.add_parser("report").add_argument("cells")
    arguments = parser.parse_args(own)
    if arguments.command == "report":
        return run_report(arguments)
    arguments.bench_options = bench_options
    arguments.deadline = time.time() + arguments.seconds
    return run_drawn(arguments) if arguments.command == "drawn" else run_files(arguments)


if __name__ == "__main__":
    main()
