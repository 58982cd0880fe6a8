#!/usr/bin/env python3
"""Times a training step of a feed-forward block: dense, dense with a mask, and with sparse layers that train.

Random weights of shapes HIDDEN x INNER, pruned by magnitude; float32 values, bf16 products under autocast, AdamW, in a CUDA
graph; the three models take turns. Prints one JSON object a sparsity.

--layer: of one layer of INNER outputs, forward and backward with the gradient of x, in bf16 without optimizer: dense and
sparse; and the time that the host takes to enqueue them.
--layer --semi-sparse: the same with a weight that each forward prunes 2:4.
--layer --updates COUNT: of a layer whose pattern moves by RigL: an update of the pattern, the gradient of the dense weight that
it follows, a dense forward, and the memory of PyTorch before and after COUNT updates. --verify checks each of them on the host.
"""

import argparse
import copy
import json
import statistics
import time

import torch
from torch import nn

import sparsmith


class Step:
    """A captured step: forward, backward and optimizer."""

    def __init__(self, model, x, y, masks=None):
        before = torch.cuda.memory_allocated()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)

        def one():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            if masks:
                with torch.no_grad():
                    torch._foreach_mul_([weight for weight, _ in masks], [mask for _, mask in masks])
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


class LayerStep:
    """Forward and backward of a layer, in a graph."""

    def __init__(self, layer, x, grad):
        self.layer, self.grad = layer, grad
        self.x = x.clone().requires_grad_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.layer(self.x).backward(grad)
        torch.cuda.current_stream().wait_stream(stream)
        self.clear()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.layer(self.x).backward(grad)

    def clear(self):
        self.x.grad = None
        self.layer.zero_grad(set_to_none=True)

    ms = Step.ms

    def host_us(self, steps=50):
        """Of a forward and of a backward: the least of some, while the GPU is idle at the begin of each."""
        times = []
        for _ in range(steps):
            self.clear()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            y = self.layer(self.x)
            middle = time.perf_counter()
            y.backward(self.grad)
            times.append((middle - begin, time.perf_counter() - middle))
        return [round(1e6 * min(each[part] for each in times), 1) for part in range(2)]


def time_layer(options, sparsity):
    torch.manual_seed(0)
    dtype = getattr(torch, options.dtype)
    dense = nn.Linear(options.hidden, options.inner, bias=False, device="cuda")
    begin = time.time()
    if options.semi_sparse:
        dense = dense.to(dtype)
        sparse = sparsmith.SemiSparseLinear.from_linear(copy.deepcopy(dense), tokens=tuple(options.tokens), search=options.search)
    else:
        if options.within_two_four:
            sparsmith.prune.magnitude_(dense, 0.5, pattern="2:4-transposable")
        sparsmith.prune.magnitude_(dense, sparsity, pattern=(options.block, options.block) if options.block else None)
        dense = dense.to(dtype)
        sparse = sparsmith.SparseLinear.from_linear(dense, tokens=tuple(options.tokens), training=True, search=options.search)
    seconds = time.time() - begin
    for tokens in options.tokens:
        x = torch.randn(tokens, options.hidden, device="cuda", dtype=dtype)
        grad = torch.randn(tokens, options.inner, device="cuda", dtype=dtype)
        steps = {"dense": LayerStep(dense, x, grad), "sparse": LayerStep(sparse, x, grad)}
        rounds = [{name: step.ms() for name, step in steps.items()} for _ in range(9)]
        us = {name: round(1e3 * statistics.median(each[name] for each in rounds), 1) for name in steps}
        print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "sparsity": sparsity,
                          "block": options.block, "dtype": options.dtype, "tokens": tokens,
                          "shape": [options.inner, options.hidden], "tune_s": round(seconds, 1), "us": us,
                          "times": round(us["dense"] / us["sparse"], 2),
                          "host_us": {name: step.host_us() for name, step in steps.items()},
                          "tuned_us": sparse.tuned.step_us(tokens), "choices": sparse.tuned.choices_text(),
                          "layer": str(sparse)}), flush=True)
        if options.profile:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for step in steps.values():
                    step.ms()
            print(profile.key_averages().table(sort_by="self_cuda_time_total", max_name_column_width=90), flush=True)
        del steps


def elapsed_ms(work, times=5):
    """The least of some, on the GPU: the host may be late."""
    found = []
    for _ in range(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        work()
        end.record()
        end.synchronize()
        found.append(begin.elapsed_time(end))
    return round(min(found), 3)


def time_updates(options, sparsity):
    torch.manual_seed(0)
    dtype, block = getattr(torch, options.dtype), options.block or 1
    dense = nn.Linear(options.hidden, options.inner, bias=False, device="cuda")
    sparsmith.prune.random_(dense, sparsity, pattern=(block, block))
    dense = dense.to(dtype)
    layer = sparsmith.SparseLinear.from_linear(dense, tokens=tuple(options.tokens), training=True, moving_block=block,
                                               search=options.search)
    model = nn.Sequential(layer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rigl = sparsmith.training.RigL(model, optimizer, steps=10**9, interval=1, fraction=0.3)
    x = torch.randn(options.tokens[0], options.hidden, device="cuda", dtype=dtype)
    grad = torch.randn(options.tokens[0], options.inner, device="cuda", dtype=dtype)
    model(x).backward(grad)
    optimizer.step()
    gradient = torch.randn(options.inner, options.hidden, device="cuda", dtype=dtype)

    def update():
        layer.dense_zeros.grad = gradient.normal_()
        rigl.step()

    draw = elapsed_ms(gradient.normal_)
    update_ms = elapsed_ms(update) - draw
    result = {"device": torch.cuda.get_device_name(), "sparsity": sparsity, "block": block, "dtype": options.dtype,
              "shape": [options.inner, options.hidden], "tokens": options.tokens[0], "choices": layer.tuned.choices_text(),
              "update_ms": round(update_ms, 3), "dense_gradient_ms": elapsed_ms(lambda: grad.t() @ x),
              "dense_forward_ms": elapsed_ms(lambda: dense(x))}
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(options.updates):
        update()
        if options.verify:
            sparsmith._library.check_packed(layer.plan, layer.packed.cpu())
    result["updates"], result["verified"] = options.updates, options.verify
    result["bytes_before_and_after"] = [before, torch.cuda.memory_allocated()]
    result["most_bytes"] = torch.cuda.max_memory_allocated()
    segments = torch.cuda.memory_snapshot()
    result["graph_bytes"] = sum(each["total_size"] for each in segments if each["segment_pool_id"] != (0, 0))
    print(json.dumps(result), flush=True)
    if options.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            update()
        print(profile.key_averages().table(sort_by="self_cuda_time_total", max_name_column_width=60, row_limit=30), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.9])
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--inner", type=int, default=14336)
    parser.add_argument("--tokens", type=int, nargs="+", default=[4096], help="of a batch; several only with --layer")
    parser.add_argument("--block", type=int, help="prune in square blocks of this side")
    parser.add_argument("--search", action="store_true", help="with --layer: time candidates; else the cost model chooses")
    parser.add_argument("--layer", action="store_true", help="time one layer without optimizer")
    parser.add_argument("--within-two-four", action="store_true", help="with --layer: prune a weight that is 2:4 already")
    parser.add_argument("--semi-sparse", action="store_true", help="with --layer: a weight that each forward prunes 2:4")
    parser.add_argument("--updates", type=int, default=0, help="with --layer: time updates of a pattern that moves, so many")
    parser.add_argument("--verify", action="store_true", help="with --updates: check each of them on the host")
    parser.add_argument("--dtype", default="bfloat16", help="with --layer: of the layer")
    parser.add_argument("--profile", action="store_true", help="with --layer: print the time of each kernel")
    options = parser.parse_args()
    if len(options.tokens) > 1 and not options.layer:
        parser.error("one number of tokens without --layer")
    for sparsity in options.sparsity:
        if options.layer:
            (time_updates if options.updates else time_layer)(options, sparsity)
            continue
        torch.manual_seed(0)
        dense = nn.Sequential(nn.Linear(options.hidden, options.inner), nn.GELU(), nn.Linear(options.inner, options.hidden)).cuda()
        sparsmith.prune.magnitude_(dense, sparsity, pattern=(options.block, options.block) if options.block else None)
        masked, sparse = copy.deepcopy(dense), copy.deepcopy(dense)
        masks = [(layer.weight, layer.weight != 0) for layer in (masked[0], masked[2])]
        begin = time.time()
        report = sparsmith.optimize(sparse, training=True, tokens=options.tokens, dtype=torch.bfloat16, progress=False)
        seconds = time.time() - begin
        x = torch.randn(*options.tokens, options.hidden, device="cuda")
        y = torch.randn(*options.tokens, options.hidden, device="cuda")
        steps = {"dense": Step(dense, x, y), "masked": Step(masked, x, y, masks), "sparse": Step(sparse, x, y)}
        rounds = [{name: step.ms() for name, step in steps.items()} for _ in range(7)]
        print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "sparsity": sparsity,
                          "block": options.block, "tokens": options.tokens[0], "optimize_s": round(seconds, 1),
                          "ms": {name: round(statistics.median(each[name] for each in rounds), 3) for name in steps},
                          "patched": len(report.patched), "expected_us": report.step_us(options.tokens[0]),
                          "choices": [layer.choices_text() for layer in report.layers],
                          "masked_bytes": report.dense_bytes, "sparse_bytes": report.bytes,
                          "gradients_and_moments_bytes": {name: step.state_bytes for name, step in steps.items()},
                          "loss": {name: step.loss.item() for name, step in steps.items()}}), flush=True)
        del steps


if __name__ == "__main__":
    main()
