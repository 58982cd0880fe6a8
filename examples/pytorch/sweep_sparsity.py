#!/usr/bin/env python3
"""Prunes a layer at several sparsities, and compares time and bytes of the dense and the tuned weight.

Prints a table, and with --plot draws the speedups as an SVG file. Times are those of the search: measured on a GPU,
predicted without one.

    examples/pytorch/sweep_sparsity.py --shape 4096x14336 --dtype float16 --tokens 1 8 32 --plot sweep.svg
"""

import argparse
import pathlib

import torch
from torch import nn

import sparsmith

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]


def svg(sparsities: list[float], speedups: dict[int, list[float]], title: str) -> str:
    """A line for each number of tokens."""
    width, height, left, top = 640, 400, 60, 40
    most = max(1.0, *(value for line in speedups.values() for value in line)) * 1.05
    span = max(sparsities) - min(sparsities) or 1.0

    def place(sparsity: float, speedup: float) -> tuple[float, float]:
        x = left + (sparsity - min(sparsities)) / span * (width - left - 130)
        return x, height - 50 - speedup / most * (height - 50 - top)

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'

    parts = [text(left, 20, title, "start"), text((left + width - 130) / 2, height - 10, "zeros, %")]
    for level in range(int(most) + 1):
        (x, y), (end, _) = place(min(sparsities), level), place(max(sparsities), level)
        parts += [f'<path d="M{x:.1f} {y:.1f}H{end:.1f}" stroke="#ccc"/>', text(x - 8, y + 4, f"{level}x", "end")]
    parts += [text(place(sparsity, 0)[0], height - 30, f"{100 * sparsity:g}") for sparsity in sparsities]
    for colour, (tokens, line) in zip(COLOURS * len(speedups), speedups.items(), strict=False):
        points = [place(*point) for point in zip(sparsities, line, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
                  text(points[-1][0] + 8, points[-1][1] + 4, f"N = {tokens}", "start")]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="13"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="4096x4096" if gpu else "512x256", help="output x input features")
    parser.add_argument("--dtype", choices=["float16", "bfloat16", "float32"], default="float16")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--sparsities", type=float, nargs="+",
                        default=[0.5, 0.7, 0.8, 0.9, 0.95, 0.99] if gpu else [0.7, 0.95])
    parser.add_argument("--memory", default="1x", help="bound on the bytes of the weight")
    parser.add_argument("--plot", type=pathlib.Path, help="an SVG file to write")
    arguments = parser.parse_args()

    rows, cols = (int(side) for side in arguments.shape.split("x"))
    device, tokens = "cuda" if gpu else "cpu", tuple(sorted(arguments.tokens))
    speedups: dict[int, list[float]] = {number: [] for number in tokens}
    print("  zeros    N  us dense  us tuned  speedup  MB dense  MB tuned  kernels")
    for sparsity in sorted(arguments.sparsities):
        torch.manual_seed(0)
        layer = nn.Linear(cols, rows, bias=False, dtype=getattr(torch, arguments.dtype), device=device)
        sparsmith.prune.magnitude_(nn.Sequential(layer), sparsity)
        tuned = sparsmith.SparseLinear.from_linear(layer, tokens=tokens, search=gpu, memory=arguments.memory).tuned
        for choice in tuned.choices:
            speedups[choice.tokens].append(choice.gain or 1.0)
            evidence = "" if choice.measured else " (predicted)"
            print(f"{100 * sparsity:5g} % {choice.tokens:>4} {choice.dense_us:9.2f} {choice.median_us:9.2f} "
                  f"{choice.gain or 1.0:7.2f}x {tuned.dense_bytes / 1e6:9.2f} {tuned.packed_bytes / 1e6:9.2f}  "
                  f"{choice.family}{evidence}", flush=True)
    if arguments.plot:
        title = f"Dense time over tuned time, {arguments.shape}, {arguments.dtype}" + ("" if gpu else ", predicted")
        arguments.plot.write_text(svg(sorted(arguments.sparsities), speedups, title), encoding="utf-8")
        print(arguments.plot)


if __name__ == "__main__":
    main()
