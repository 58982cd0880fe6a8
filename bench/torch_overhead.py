#!/usr/bin/env python3
"""Times what the host spends on a call of a small layer: dense, sparse, and a Python custom_op that does the same.

The kernels are shorter than the host's work, so calls in a row take the host's time. Prints one JSON object.
"""

import json
import statistics
import time

import torch
from torch import nn

import sparsmith
from sparsmith import SparseLinear


def host_us(call, calls=2000, rounds=9):
    taken = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        taken.append((time.perf_counter() - begin) / calls * 1e6)
        torch.cuda.synchronize()
    return round(statistics.median(taken), 2)


@torch.library.custom_op("sparsmith_bench::linear", mutates_args=())
def custom(x: torch.Tensor, packed: torch.Tensor, plan: int) -> torch.Tensor:
    return torch.ops.sparsmith.linear.default(x, packed, None, plan)


@custom.register_fake
def _(x, packed, plan):
    return x.new_empty(*x.shape[:-1], 1024)


def main():
    layer = nn.Linear(1024, 1024, bias=False, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        layer.weight.mul_(torch.rand_like(layer.weight) < 0.1)
    sparse = SparseLinear.from_linear(layer, tokens=(1,))
    x = torch.randn(1, 1024, device="cuda", dtype=torch.float16)
    y = torch.empty_like(x)
    op, out = torch.ops.sparsmith.linear.default, torch.ops.sparsmith.linear_out.default
    with torch.no_grad():
        cases = {
            "torch.sin": lambda: torch.sin(x),
            "empty_like": lambda: torch.empty_like(x),
            "F.linear": lambda: nn.functional.linear(x, layer.weight),
            "nn.Linear": lambda: layer(x),
            "sparsmith::linear": lambda: op(x, sparse.packed, None, sparse.plan),
            "sparsmith::linear_out": lambda: out(x, sparse.packed, None, sparse.plan, None, y),
            "SparseLinear": lambda: sparse(x),
            "custom_op": lambda: custom(x, sparse.packed, sparse.plan),
        }
        for call in cases.values():  # warm
            for _ in range(200):
                call()
        found = {name: host_us(call) for name, call in cases.items()}
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                      "sparsmith": sparsmith.__version__, "choices": sparse.tuned.choices_text(), "host_us": found}))


if __name__ == "__main__":
    main()
