#!/usr/bin/env python3
"""Times the decoding of whole models, dense and with the layers of sparsmith.optimize(), side by side.

A Llama decoder of the given shapes with random weights, pruned by magnitude. A step decodes one token for each sequence
of a batch behind `context` tokens, with a static cache, under torch.compile and in a CUDA graph (or in a graph alone):
the way that is faster for the dense model is shown for both. Prints one JSON object a line.

    bench/torch_decode.py --model llama-8b --layers 32 --sparsity 0.8 0.99 --batch 1 8 32 --context 512
"""

import argparse
import inspect
import json
import statistics
import sys
import time

import torch
import transformers
from transformers.cache_utils import StaticLayer

import sparsmith

SHAPES = {
    "tiny": dict(hidden_size=256, intermediate_size=512, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
                 vocab_size=1000),
    "llama-8b": dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
                     num_hidden_layers=32, vocab_size=128256),
    "plug-27b": dict(hidden_size=8192, intermediate_size=22016, num_attention_heads=64, num_key_value_heads=64,
                     num_hidden_layers=32, vocab_size=21504),
}


def make_model(shape, layers, device):
    config = transformers.LlamaConfig(**{**SHAPES[shape], **({"num_hidden_layers": layers} if layers else {})},
                                      max_position_embeddings=8192)
    torch.manual_seed(0)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(default)
    return model.eval()


def linear_layers(model):
    return [module for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and "lm_head" not in name]


def prune(model, sparsity):
    """By magnitude in each layer, with a threshold from a sample: the values are random."""
    for module in linear_layers(model):
        weight = module.weight.data
        flat = weight.abs().flatten()
        threshold = flat[torch.randint(flat.numel(), (1 << 20,), device=flat.device)].float().quantile(sparsity)
        weight.masked_fill_(weight.abs() <= threshold, 0)


class FixedPosition(StaticLayer):
    """A layer of the cache that writes each token at the same place: all steps are equal."""

    def update(self, key_states, value_states, *args, **kwargs):
        self.keys.index_copy_(2, self.position, key_states)
        self.values.index_copy_(2, self.position, value_states)
        return self.keys, self.values


class Decoder:
    """A step of decoding, captured in a CUDA graph."""

    def __init__(self, model, batch, context, compiled):
        self.model = model
        device = next(model.parameters()).device
        self.ids = torch.zeros(batch, 1, dtype=torch.long, device=device)
        self.position = torch.tensor([context], device=device)
        self.position_ids = torch.full((batch, 1), context, device=device)
        config = model.config
        self.cache = transformers.StaticCache(config=config, max_cache_len=context + 64)
        head = config.hidden_size // config.num_attention_heads
        self.cache.early_initialization(batch, config.num_key_value_heads, head, torch.float16, device)
        for layer in self.cache.layers:
            layer.keys.normal_(std=0.02)
            layer.values.normal_(std=0.02)
            layer.position = self.position
            layer.__class__ = FixedPosition
        name = "cache" if "cache" in inspect.signature(model.model.forward).parameters else "past_key_values"
        self.inputs = {"input_ids": self.ids, "position_ids": self.position_ids, name: self.cache, "use_cache": True}
        self.mask = torch.zeros(batch, 1, 1, context + 64, dtype=torch.float16, device=device)
        self.mask[..., context + 1:] = float("-inf")
        self.run = torch.compile(self.step, fullgraph=True, dynamic=False) if compiled else self.step
        self.graph = None

    def step(self):
        return self.model.model(attention_mask=self.mask, **self.inputs).last_hidden_state

    @torch.no_grad()
    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.run()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = self.run()
        return self

    def times(self, rounds=5, steps=20):
        """The median of the rounds, in ms a step. Weights are larger than the caches, so they are cold."""
        taken = []
        for _ in range(rounds):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(steps):
                self.graph.replay()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) / steps)
        return statistics.median(taken)

    def kernels(self, steps=5):
        """Microseconds a step by kernel."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(steps):
                self.graph.replay()
            torch.cuda.synchronize()
        rows = [(event.key, event.device_time_total / steps, event.count / steps) for event in profile.key_averages()]
        return sorted(rows, key=lambda row: -row[1])


def measure(model, batch, context, ways, profile):
    found = {}
    for way in ways:
        torch._dynamo.reset()
        begin = time.time()
        decoder = Decoder(model, batch, context, way == "compile").capture()
        found[way] = {"ms": decoder.times(), "prepare_s": time.time() - begin, "output": decoder.output.clone()}
        if profile:
            found[way]["kernels"] = decoder.kernels()
        del decoder
        torch.cuda.empty_cache()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=SHAPES, default="llama-8b")
    parser.add_argument("--layers", type=int, default=0, help="decoder layers; 0: those of the model")
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.8])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--context", type=int, nargs="+", default=[512])
    parser.add_argument("--ways", nargs="+", default=["compile", "graph"], choices=["compile", "graph"])
    parser.add_argument("--profile", action="store_true", help="also print the kernels of a step")
    parser.add_argument("--tune", nargs="*", default=[], help="further arguments of `sparsmith tune`")
    options = parser.parse_args()
    device = "cuda"
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                      "transformers": transformers.__version__, "sparsmith": sparsmith.__version__,
                      "model": options.model, "layers": options.layers}), flush=True)
    cases = [(batch, context) for batch in options.batch for context in options.context]
    for sparsity in options.sparsity:
        model = make_model(options.model, options.layers, device)
        prune(model, sparsity)
        linear_bytes = sum(module.weight.nbytes for module in linear_layers(model))
        dense = {case: measure(model, *case, options.ways, options.profile) for case in cases}
        before = torch.cuda.memory_allocated()
        begin = time.time()
        report = sparsmith.optimize(model, tokens=options.batch, exclude="lm_head", progress=False,
                                    arguments=options.tune)
        optimize_s = time.time() - begin
        print(json.dumps({"sparsity": sparsity, "optimize_s": round(optimize_s, 1), "patched": len(report.patched),
                          "linear_bytes": linear_bytes, "tuned_bytes": report.bytes,
                          "gpu_bytes": [before, torch.cuda.memory_allocated()],
                          "choices": [str(layer) for layer in report.layers[:4]]}), flush=True)
        for case in cases:
            sparse = measure(model, *case, options.ways, options.profile)
            best = min(options.ways, key=lambda way: dense[case][way]["ms"])
            difference = (sparse[best]["output"] - dense[case][best]["output"]).abs().max().item()
            scale = dense[case][best]["output"].abs().max().item()
            print(json.dumps({"sparsity": sparsity, "batch": case[0], "context": case[1], "way": best,
                              "dense_ms": dense[case][best]["ms"], "sparse_ms": sparse[best]["ms"],
                              "gain": dense[case][best]["ms"] / sparse[best]["ms"],
                              "all_ms": {way: [dense[case][way]["ms"], sparse[way]["ms"]] for way in options.ways},
                              "prepare_s": {way: [dense[case][way]["prepare_s"], sparse[way]["prepare_s"]]
                                            for way in options.ways},
                              "largest_difference": difference, "largest_output": scale}), flush=True)
            if options.profile:
                for name, found in (("dense", dense[case]), ("sparse", sparse)):
                    print(f"  {name}, {best}:")
                    for key, us, count in found[best]["kernels"][:24]:
                        print(f"    {us:9.1f} us  {count:6.1f} x  {key[:110]}")
                    sys.stdout.flush()
        del model
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
