#!/usr/bin/env python3
"""Simulates tuning on a cluster of 1 to 256 GPUs, from the measured times of its parts.

    sparsmith tune MODEL -o none --units 16 --json > units16.json     # for 4 GPUs: four units a GPU
    bench/simulate_cluster.py --times bench/recorded/cluster-times.json --shapes MODEL 1=units4.json 4=units16.json

The schedule is that of sparsmith.cluster; only the clock is simulated. --times: one JSON object, in seconds: "shapes", for each
"MxK" the time of a weight that is "searched" in full and of one that "transfers" a near weight's result; "start" of a run of the
command with import and export of caches; "actor": until an actor is there; "analysis": that the driver takes for units; "write": that
the last run takes for the tuned file.
"""

import argparse
import heapq
import json
import pathlib

from sparsmith.cluster import Schedule, Unit


def seconds_of(unit: dict, shapes: dict[str, str], times: dict) -> float:
    """Of one unit: the start of its run, and its weights; the first of each shape is searched, unless the unit begins with its result."""
    total, seen = times["start"], set()
    for name in unit["weights"]:
        shape = shapes[name]
        total += times["shapes"][shape]["searched" if unit["after"] is None and shape not in seen else "transfers"]
        seen.add(shape)
    return total


def makespan(units: list[Unit], seconds: list[float], gpus: int) -> float:
    """The end of the last unit, by the order in which the schedule gives units out."""
    schedule, running, now, idle = Schedule(units), [], 0.0, gpus
    while not schedule.finished:
        while idle and (unit := schedule.next()) is not None:
            heapq.heappush(running, (now + seconds[unit], unit))
            idle -= 1
        now, unit = heapq.heappop(running)
        schedule.done.add(unit)
        idle += 1
    return now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=pathlib.Path, required=True)
    parser.add_argument("--shapes", type=pathlib.Path, required=True, help="the model: shapes of weights are read from its header")
    parser.add_argument("cases", nargs="+", metavar="GPUS=UNITS", help="an output of tune --units, for so many GPUs")
    options = parser.parse_args()
    times = json.loads(options.times.read_text())
    with open(options.shapes, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    shapes = {name: "x".join(map(str, tensor["shape"])) for name, tensor in header.items() if name != "__metadata__"}
    serial = times["analysis"] + times["write"] + times["actor"]
    print(f"{'GPUs':>5} {'units':>6} {'GPU hours':>10} {'makespan':>10} {'of perfect':>10}  longest chain of units")
    least = None
    for case in options.cases:
        count, _, path = case.partition("=")
        gpus, listed = int(count), json.loads(pathlib.Path(path).read_text())["units"]
        units = [Unit(tuple(unit["weights"]), unit["work"], unit["after"]) for unit in listed]
        seconds = [seconds_of(unit, shapes, times) for unit in listed]
        chains = [own + (seconds[unit.after] if unit.after is not None else 0) for own, unit in zip(seconds, units, strict=True)]
        whole = serial + makespan(units, seconds, gpus)
        least = least or (whole - serial) * gpus  # GPU time of the coarsest units: the work that must be done
        print(f"{gpus:>5} {len(units):>6} {sum(seconds) / 3600:>10.2f} {whole:>8.0f} s {(least / gpus) / whole:>10.0%}  "
              f"{max(chains):.0f} s + {serial:.0f} s that no GPU shortens")


if __name__ == "__main__":
    main()
