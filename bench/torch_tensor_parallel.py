#!/usr/bin/env python3
"""The linear layers of a decoder layer over several GPUs: sparse and dense, us a layer and bytes a rank.

A layer is q, k, v, o, gate, up and down with the two all-reduces, without attention and norms. The sparse one is tuned with
--tensor-parallel, with gate, activation and product in one kernel; the dense one has weights of a rank's size, those of one
input joined, and a compiled activation. A CUDA graph runs as many layers as make the weights of a rank
exceed three times the L2 cache. Prints a line a case, and JSON.

    bench/torch_tensor_parallel.py --ranks 1 2 4 --sparsity 0.8 0.99 --batch 1 8
    bench/torch_tensor_parallel.py --dry    # small, on the CPU, times of no meaning
"""

import argparse
import copy
import json
import os
import statistics
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP

import sparsmith

COLD_BYTES = 160e6  # three times the L2 cache of an H200


def config_of(dry, ranks=1):
    """Of Llama 70B, or of one of its ranks with equal parts."""
    hidden, inner, heads, kv_heads, size = (128, 256, 8, 4, 16) if dry else (8192, 28672, 64, 8, 128)
    return LlamaConfig(hidden_size=hidden, intermediate_size=inner // ranks, num_attention_heads=heads // ranks,
                       num_key_value_heads=kv_heads // ranks, head_dim=size, attn_implementation="eager")


class Layer(nn.Module):
    """Its products alone; the layers sum over ranks by themselves."""

    def __init__(self, config):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(config, 0), LlamaMLP(config)

    def forward(self, x):
        attention = self.self_attn
        q, _, _ = attention.q_proj(x), attention.k_proj(x), attention.v_proj(x)
        x = x + attention.o_proj(q)
        return x + self.mlp(x)


def gated(y):
    gate, up = y.chunk(2, dim=-1)
    return nn.functional.silu(gate) * up


class DenseLayer(nn.Module):
    def __init__(self, layer, activation, summed):
        super().__init__()
        attention, mlp = layer.self_attn, layer.mlp
        self.queries = attention.q_proj.out_features
        self.qkv = nn.Parameter(torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]))
        self.gate_up = nn.Parameter(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
        self.o, self.down = attention.o_proj.weight, mlp.down_proj.weight
        self.activation, self.summed = activation, summed

    def forward(self, x):
        linear = nn.functional.linear
        x = x + self.summed(linear(linear(x, self.qkv)[..., :self.queries], self.o))
        return x + self.summed(linear(self.activation(linear(x, self.gate_up)), self.down))


class Model(nn.Module):
    def __init__(self, config, layers=1):
        super().__init__()
        self.config, self.layers = config, nn.ModuleList(Layer(config) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def drawn(config, device, dtype):
    """Weights that keep the size of activations."""
    with torch.device(device):
        model = Model(config).to(dtype)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3 * parameter.shape[1] ** -0.5)
    return model


def many(layer, layer_bytes, dry):
    """Copies of a layer that do not fit the L2 cache together."""
    count = 2 if dry else max(2, int(COLD_BYTES / layer_bytes) + 1)
    model = Model(config_of(True), 0)
    model.layers.extend([layer, *(copy.deepcopy(layer) for _ in range(count - 1))])
    return model


def us_of(model, x, device):
    """The median time of a layer over the replays of a graph, the slowest rank's."""
    with torch.no_grad():
        if device.type == "cpu":
            model(x)
            return 0.0
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(x)
        times = []
        for _ in range(30):
            dist.barrier()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
    slowest = torch.tensor([1e3 * statistics.median(times) / len(model.layers)], device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item()


def rank_main(rank, ranks, folder, options):
    device = torch.device("cpu") if options.dry else torch.device("cuda", rank)
    if not options.dry:
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if options.dry else "nccl", init_method=f"file://{folder}/rendezvous{ranks}", rank=rank,
                            world_size=ranks)

    def summed(y):
        if ranks > 1:
            dist.all_reduce(y)
        return y

    dtype = torch.float32 if options.dry else torch.bfloat16
    dense = drawn(config_of(options.dry, ranks), device, dtype)
    hidden = dense.config.hidden_size
    dense_bytes = sum(parameter.nbytes for parameter in dense.parameters())
    cases = {}
    whole = many(DenseLayer(dense.layers[0], gated if options.dry else torch.compile(gated, dynamic=False), summed),
                 dense_bytes, options.dry)
    for batch in options.batch:
        x = torch.randn(batch, hidden, device=device, dtype=dtype)
        cases[batch] = us_of(whole, x, device)
    del whole, dense
    rows = []
    for sparsity in options.sparsity:
        with torch.device("meta"):
            model = Model(config_of(options.dry)).to(dtype)
        name = f"{folder}/{sparsity}.{ranks}" + (f".rank{rank}" if ranks > 1 else "") + ".tuned.safetensors"
        sparsmith.patch_model(model, sparsmith.load(name, trusted=True))
        for module in model.modules():  # a single GPU's weight that stays dense
            if isinstance(module, nn.Linear) and module.weight.is_meta:
                nn.init.normal_(module.to_empty(device=device).weight)
        layer = model.layers[0].to(device)
        sizes = torch.tensor([sum(tensor.nbytes for tensor in (*layer.parameters(), *layer.buffers()))], device=device)
        dist.all_reduce(sizes, op=dist.ReduceOp.MAX)
        sparse = many(layer, int(sizes), options.dry)
        for batch in options.batch:
            x = torch.randn(batch, hidden, device=device, dtype=dtype)
            rows.append({"sparsity": sparsity, "ranks": ranks, "batch": batch, "us": us_of(sparse, x, device),
                         "dense_us": cases[batch], "bytes_a_rank": int(sizes), "dense_bytes_a_rank": dense_bytes})
        del sparse, layer, model
    if rank == 0:
        with open(f"{folder}/rows{ranks}.json", "w") as file:
            json.dump(rows, file)
    dist.destroy_process_group()


def tune(model, ranks, path, options):
    device = "none" if options.dry else ",".join(f"cuda:{i}" for i in range(ranks))
    sparsmith.tune(model, path, tokens=options.batch, device=device, tensor_parallel=ranks if ranks > 1 else None,
                   memory="1x", groups=["qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight",
                                        "gate_up:*.gate_proj.weight,*.up_proj.weight"],
                   arguments=["--epilogue", "*.gate_up=silu,gated", *options.arguments], progress=not options.dry)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.8, 0.99])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--dry", action="store_true", help="a small layer on the CPU")
    parser.add_argument("--arguments", nargs=argparse.REMAINDER, default=[], help="of sparsmith tune, such as --candidates 8")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for sparsity in options.sparsity:
            dtype, device = (torch.float32, "cpu") if options.dry else (torch.bfloat16, "cuda")
            model = drawn(config_of(options.dry), device, dtype)
            for parameter in model.parameters():
                parameter.data *= torch.rand(parameter.shape, device=device) >= sparsity
            for ranks in options.ranks:
                tune(model, ranks, os.path.join(folder, f"{sparsity}.{ranks}.tuned.safetensors"), options)
            del model
        rows = []
        for ranks in options.ranks:
            torch.multiprocessing.spawn(rank_main, (ranks, folder, options), nprocs=ranks)
            with open(f"{folder}/rows{ranks}.json") as file:
                rows += json.load(file)
    for row in rows:
        times = "not timed" if options.dry else \
            f"{row['us']:8.1f} us, dense {row['dense_us']:8.1f} us ({row['dense_us'] / row['us']:.2f}x)"
        print(f"{100 * row['sparsity']:.0f} %, {row['ranks']} ranks, batch {row['batch']}: {times}; "
              f"{row['bytes_a_rank'] / 1e6:.1f} MB a rank, dense {row['dense_bytes_a_rank'] / 1e6:.1f} MB")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
