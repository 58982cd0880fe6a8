#!/usr/bin/env python3
"""Attention in a block pattern, from the operators of a sparse weight: sampled product, softmax of rows, product.

Each block of queries attends to the blocks around it and to the first ones. The scores are the values of a sparse matrix
[queries, keys], whose pattern is tuned once. Prints the largest differences from dense attention with a mask, and on a GPU
the times of a forward and a backward: ours and FlexAttention's.

    examples/pytorch/sparse_attention.py --length 8192 --heads 16 --window 5 --first 1
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.attention import flex_attention

import sparsmith
from sparsmith import TrainableSparseLinear, ops


def block_pattern(blocks: int, window: int, first: int) -> torch.Tensor:
    """Which blocks of keys each block of queries attends to: the same number for each."""
    offsets = torch.arange(window) - window // 2
    centres = torch.arange(blocks).clamp(first + window // 2, blocks - 1 - (window - 1) // 2)
    chosen = torch.zeros(blocks, blocks, dtype=torch.bool)
    chosen[torch.arange(blocks)[:, None], centres[:, None] + offsets] = True
    chosen[:, :first] = True
    return chosen


class BlockAttention(torch.autograd.Function):
    """softmax(q.T @ k / sqrt(d)) @ v at the pattern of a tuned weight [queries, keys]. q, k, v: [d, length]; so is the result.

    The five products are those of a linear layer that trains, with scores in the place of its weight.
    """

    @staticmethod
    def forward(ctx, q, k, v, packed, plan, length):
        q = q * q.shape[0] ** -0.5
        scores = ops.sampled(k, q, packed, plan)
        # As many scores in each row of the pattern: they are a dense matrix.
        weights = scores.view(length, -1).softmax(1, dtype=torch.float32).to(q.dtype).view(-1)
        ctx.save_for_backward(q, k, v, packed, weights)
        ctx.plan, ctx.length = plan, length
        return ops.linear(v, packed, None, plan, None, weights)

    @staticmethod
    def backward(ctx, grad):
        q, k, v, packed, weights = ctx.saved_tensors
        grad = grad.contiguous()
        by_weights = ops.sampled(v, grad, packed, ctx.plan)
        rows = weights.view(ctx.length, -1).float(), by_weights.view(ctx.length, -1).float()
        by_scores = rows[0] * (rows[1] - (rows[0] * rows[1]).sum(1, keepdim=True))
        by_scores = by_scores.to(q.dtype).view(-1)
        by_q = ops.linear(k, packed, None, ctx.plan, None, by_scores) * q.shape[0] ** -0.5
        return by_q, ops.linear_transposed(q, packed, ctx.plan, by_scores), \
            ops.linear_transposed(grad, packed, ctx.plan, weights), None, None, None


def tuned_pattern(mask: torch.Tensor, head: int, dtype: torch.dtype, device: str) -> TrainableSparseLinear:
    """The three operators, tuned for the pattern of a mask [queries, keys] and heads of some size."""
    linear = nn.Linear(*reversed(mask.shape), bias=False, device="meta")
    linear.weight = nn.Parameter(mask.to(device, dtype))
    return sparsmith.SparseLinear.from_linear(linear, tokens=(head,), training=True)


def with_gradients(call: Callable[..., torch.Tensor], inputs: list[torch.Tensor], grad: torch.Tensor) -> list[torch.Tensor]:
    """The result, and the gradients of new leaves: a graph captures no work of leaves that another stream has used."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    y = call(*leaves)
    return [y.detach(), *torch.autograd.grad(y, leaves, grad)]


def ms(call: Callable[[], object], calls: int = 10) -> float:
    """Of one call in a captured graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        graph.replay()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin) / calls


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=8192 if gpu else 256)
    parser.add_argument("--heads", type=int, default=16 if gpu else 2)
    parser.add_argument("--head", type=int, default=64, help="size of a head")
    parser.add_argument("--block", type=int, default=64 if gpu else 16, help="side of a block")
    parser.add_argument("--window", type=int, default=5 if gpu else 3, help="neighbouring blocks")
    parser.add_argument("--first", type=int, default=1, help="blocks at the begin that all attend to")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device, dtype = ("cuda", torch.bfloat16) if gpu else ("cpu", torch.float32)
    torch.manual_seed(options.seed)

    blocks = block_pattern(options.length // options.block, options.window, options.first)
    mask = blocks.repeat_interleave(options.block, 0).repeat_interleave(options.block, 1)
    pattern = tuned_pattern(mask, options.head, dtype, device)
    print(f"{options.length} x {options.length}, {100 * pattern.tuned.sparsity:.1f} % zeros; {pattern.tuned.choices_text()}")

    shape = (options.heads, options.length, options.head)
    q, k, v, grad = (torch.randn(shape, dtype=dtype, device=device) for _ in range(4))
    across = [x.transpose(1, 2).contiguous() for x in (q, k, v)]  # as products with W x make them
    grad_across = grad.transpose(1, 2).contiguous()

    def ours(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([BlockAttention.apply(*head, pattern.packed, pattern.plan, options.length)
                            for head in zip(*inputs, strict=True)])

    found = with_gradients(ours, across, grad_across)
    exact = [x.double().requires_grad_() for x in (q, k, v)]
    worst = 0.0
    for at in range(min(options.heads, 2)):  # a head is a dense matrix here
        one = [x[at].detach().requires_grad_() for x in exact]
        scores = one[0] @ one[1].T * options.head ** -0.5
        expected = scores.masked_fill(~mask.to(device), -torch.inf).softmax(1) @ one[2]
        for got, want in zip(found, [expected, *torch.autograd.grad(expected, one, grad[at].double())], strict=True):
            worst = max(worst, float(((got[at].T - want).norm() / want.norm()).detach()))
    print(f"largest relative difference from dense attention: {worst:.1e}")
    if not gpu:
        return

    compiled = torch.compile(flex_attention.flex_attention)
    chosen = blocks.to(device)
    block_mask = flex_attention.create_block_mask(lambda _b, _h, i, j: chosen[i // options.block, j // options.block], None, None,
                                                  options.length, options.length, device)
    lines = [x[None] for x in (q, k, v)]

    def flex(*inputs: torch.Tensor) -> torch.Tensor:
        return compiled(*inputs, block_mask=block_mask)

    for name, call, inputs, by in (("sparsmith", ours, across, grad_across), ("FlexAttention", flex, lines, grad[None])):
        with torch.no_grad():
            forward = ms(lambda call=call, inputs=inputs: call(*inputs))
        both = ms(lambda call=call, inputs=inputs, by=by: with_gradients(call, inputs, by))
        print(f"{name:>13}: forward {forward:.3f} ms, forward and backward {both:.3f} ms")


if __name__ == "__main__":
    main()
