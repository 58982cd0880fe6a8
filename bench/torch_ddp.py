#!/usr/bin/env python3
"""Trains a sparse decoder whose patterns move on one GPU and, with DistributedDataParallel, on several.

The decoder of examples/pytorch/moving_patterns.py, on a text; linear layers of its blocks at --sparsity in blocks, RigL with an
update every --interval steps. Runs: one process with --batch sequences (one); --ranks processes that share these (shared); --ranks
processes with --batch sequences each (each). Eager steps. Prints a JSON object a run: milliseconds of a step between updates and of one with an
update (medians of the slowest rank), the mean loss of the last 20 steps, updates, and whether all ranks have the same patterns
and values at the end.

    bench/torch_ddp.py --text kjv.txt --ranks 2 --updates 200
    bench/torch_ddp.py --dry    # small, on the CPU
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

sys.path.append(str(pathlib.Path(__file__).parent.parent / "examples" / "pytorch"))
from moving_patterns import Text, begin_sparse, make_sparse

import sparsmith


def same_everywhere(model, device):
    """Whether all ranks have the same patterns and parameters."""
    own = [layer.block_pattern().blocks for layer in model.modules() if getattr(layer, "moving_block", 0)]
    own += [parameter.detach() for parameter in model.parameters()]
    for tensor in own:
        first = tensor.clone()
        dist.broadcast(first, 0)
        different = torch.tensor([0 if torch.equal(first, tensor) else 1], device=device)
        dist.all_reduce(different)
        if different.item():
            return False
    return True


def rank_main(rank, ranks, folder, name, options):
    device = torch.device("cpu") if options.dry else torch.device("cuda", rank)
    if not options.dry:
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if options.dry else "nccl", init_method=f"file://{folder}/{name}", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    task = Text(options, device.type)
    model = task.model().to(device)
    begin_sparse(model, options, 0)
    if rank == 0:
        make_sparse(model, task, options.block, pathlib.Path(folder))
    dist.barrier()
    if rank != 0:
        make_sparse(model, task, options.block, pathlib.Path(folder))
    wrapped = model if ranks == 1 else nn.parallel.DistributedDataParallel(model, device_ids=None if options.dry else [rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.05)
    steps = options.updates * options.interval
    schedule = sparsmith.training.RigL(model, optimizer, steps=steps, interval=options.interval, end=1)
    random, times, losses, updates = torch.Generator().manual_seed(0), {False: [], True: []}, [], 0
    share = options.batch if options.each else options.batch // ranks
    options.batch = ranks * share
    for _ in range(steps):
        (ids,) = task.batch(random)  # of all ranks
        moves = schedule.moves_next
        begin = time.perf_counter()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = task.loss(wrapped, ids[rank * share:(rank + 1) * share])
        loss.backward()
        optimizer.step()
        updates += schedule.step()
        optimizer.zero_grad()
        loss = loss.detach()
        dist.all_reduce(loss)  # the GPU has ended the step
        losses.append(loss.item() / ranks)
        times[moves].append(1e3 * (time.perf_counter() - begin))
    ms = torch.tensor([statistics.median(times[False]), statistics.median(times[True])], device=device)
    dist.all_reduce(ms, op=dist.ReduceOp.MAX)
    same = same_everywhere(model, device)
    if rank == 0:
        print(json.dumps({"device": "cpu" if options.dry else torch.cuda.get_device_name(), "ranks": ranks,
                          "sequences_a_rank": share, "hidden": options.hidden, "layers": options.layers,
                          "step_ms": round(ms[0].item(), 2), "step_with_update_ms": round(ms[1].item(), 2),
                          "loss": round(statistics.mean(losses[-20:]), 4), "updates": updates, "same_everywhere": same}), flush=True)
    dist.destroy_process_group()
    if not same:
        raise SystemExit("ranks have different patterns or values")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--runs", nargs="+", choices=["one", "shared", "each"], default=["one", "shared", "each"])
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32, help="sequences")
    parser.add_argument("--length", type=int, default=256, help="bytes of a sequence")
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--interval", type=int, default=2)
    parser.add_argument("--rate", type=float, default=3e-4)
    options = parser.parse_args()
    if options.dry:
        options.hidden, options.layers, options.batch, options.length, options.updates = 64, 1, 4, 32, 4
    with tempfile.TemporaryDirectory() as folder:
        for name in options.runs:
            ranks = 1 if name == "one" else options.ranks
            options.each = name == "each"
            torch.multiprocessing.spawn(rank_main, (ranks, folder, name, options), nprocs=ranks)


if __name__ == "__main__":
    main()
