#!/usr/bin/env python3
"""Times a training step of a feed-forward block, dense with a mask and with trained sparse layers, side by side.

Random weights of shapes HIDDEN x INNER, pruned by magnitude in blocks or element by element; float32 values, bf16 kernels
under autocast, AdamW, in a CUDA graph. Prints one JSON object a sparsity.
"""

import argparse
import copy
import json
import statistics
import time

import torch
from torch import nn
from torch.nn.utils import prune

import sparsmith


class Step:
    """A captured step: forward, backward, optimizer."""

    def __init__(self, model, x, y):
        before = torch.cuda.memory_allocated()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)

        def one():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            return loss

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                one()
        torch.cuda.current_stream().wait_stream(stream)
        self.state_bytes = torch.cuda.memory_allocated() - before  # gradients and moments
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = one()

    def ms(self, steps=10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(steps):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.9])
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--inner", type=int, default=14336)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--block", type=int, help="prune in square blocks of this side")
    options = parser.parse_args()
    for sparsity in options.sparsity:
        torch.manual_seed(0)
        dense = nn.Sequential(nn.Linear(options.hidden, options.inner), nn.GELU(), nn.Linear(options.inner, options.hidden)).cuda()
        pattern = (options.block, options.block) if options.block else None
        sparsmith.prune.magnitude_(dense, sparsity, **({"pattern": pattern} if pattern else {}))
        sparse = copy.deepcopy(dense)
        for layer in (dense[0], dense[2]):
            prune.custom_from_mask(layer, "weight", layer.weight != 0)
        begin = time.time()
        report = sparsmith.optimize(sparse, training=True, tokens=(options.tokens,), dtype=torch.bfloat16, progress=False)
        seconds = time.time() - begin
        x = torch.randn(options.tokens, options.hidden, device="cuda")
        y = torch.randn(options.tokens, options.hidden, device="cuda")
        steps = Step(dense, x, y), Step(sparse, x, y)
        times = [tuple(step.ms() for step in steps) for _ in range(7)]
        dense_ms, sparse_ms = (statistics.median(column) for column in zip(*times, strict=True))
        print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "sparsity": sparsity,
                          "block": options.block, "tokens": options.tokens, "optimize_s": round(seconds, 1),
                          "dense_ms": round(dense_ms, 3), "sparse_ms": round(sparse_ms, 3),
                          "patched": len(report.patched), "expected_us": report.step_us(options.tokens),
                          "choices": [layer.choices_text() for layer in report.layers],
                          "dense_bytes": report.dense_bytes, "bytes": report.bytes,
                          "state_bytes": [step.state_bytes for step in steps],
                          "loss": [step.loss.item() for step in steps]}), flush=True)
        del steps


if __name__ == "__main__":
    main()
