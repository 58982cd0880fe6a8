#!/usr/bin/env python3
"""Times the decoding of whole models, dense and with the layers of sparsmith.optimize(), side by side.

A Llama decoder of the given shapes with random weights, pruned by magnitude. A step decodes one token for each sequence
of a batch behind a context, with a static cache, under torch.compile and in a CUDA graph (or in a graph alone): the way
that is faster for the dense model is shown for both, and their rounds alternate. lm_head is not in a step. Prints one
JSON object a line.

    bench/torch_decode.py --model llama-8b --sparsity 0.8 0.99 --cases 1:512 8:512 32:512 1:4096
"""

import argparse
import inspect
import json
import os
import pathlib
import statistics
import tempfile
import time
from unittest import mock

import torch
import transformers
from transformers.cache_utils import StaticLayer
from transformers.models.llama import modeling_llama

import sparsmith

SHAPES = {
    "tiny": {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
             "num_hidden_layers": 2, "vocab_size": 1000},
    "llama-8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
                 "num_hidden_layers": 32, "vocab_size": 128256},
    "plug-27b": {"hidden_size": 8192, "intermediate_size": 22016, "num_attention_heads": 64, "num_key_value_heads": 64,
                 "num_hidden_layers": 32, "vocab_size": 21504},
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
    """A step of decoding, captured in a CUDA graph. The cache holds just the context and the new token, so no mask is
    needed, and attention takes its path for grouped queries."""

    def __init__(self, model, batch, context, compiled):
        self.model = model
        device = next(model.parameters()).device
        config = model.config
        self.position = torch.tensor([context], device=device)
        cache = transformers.StaticCache(config=config, max_cache_len=context + 1)
        head = config.hidden_size // config.num_attention_heads
        cache.early_initialization(batch, config.num_key_value_heads, head, torch.float16, device)
        generator = torch.Generator(device).manual_seed(1)
        for layer in cache.layers:
            layer.keys.normal_(std=0.02, generator=generator)
            layer.values.normal_(std=0.02, generator=generator)
            layer.position = self.position
            layer.__class__ = FixedPosition
        name = "cache" if "cache" in inspect.signature(model.model.forward).parameters else "past_key_values"
        self.inputs = {"input_ids": torch.arange(batch, device=device)[:, None] % config.vocab_size,
                       "position_ids": torch.full((batch, 1), context, device=device), name: cache, "use_cache": True}
        self.run = torch.compile(self.step, fullgraph=True, dynamic=False) if compiled else self.step

    def step(self):
        return self.model.model(**self.inputs).last_hidden_state

    @torch.no_grad()
    @mock.patch.object(modeling_llama, "create_causal_mask", lambda **_: None)  # it would be true everywhere
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
        self.replay(3)
        return self

    def replay(self, steps=10):
        """Milliseconds a step. The weights of a model are larger than the caches, so they are cold."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(steps):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / steps


def decoders(model, case, ways):
    made = {}
    for way in ways:
        torch._dynamo.reset()
        made[way] = Decoder(model, *case, way == "compile").capture()
    return made


def side_by_side(dense, sparse, rounds=7):
    """Medians of alternating rounds, by way: (dense, sparse), ms a step."""
    taken = {way: ([], []) for way in dense}
    for _ in range(rounds):
        for way in dense:
            for times, decoder in zip(taken[way], (dense[way], sparse[way]), strict=True):
                times.append(decoder.replay())
    return {way: tuple(statistics.median(times) for times in both) for way, both in taken.items()}


@torch.no_grad()
def greedy(model, tokens=64):
    """Greedy tokens behind a prompt, and the logits of all of them."""
    ids = torch.arange(1, 9, device="cuda")[None]
    output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, do_sample=False,
                            pad_token_id=0, eos_token_id=None)
    return output[0, 8:]


@torch.no_grad()
def logits_of(model, ids):
    return model(ids[None]).logits[0].float()


@torch.no_grad()
def prefill_ms(model, tokens):
    ids = torch.zeros(1, tokens, dtype=torch.long, device="cuda")
    times = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        model.model(ids, use_cache=False)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def pruned_model(options, sparsity):
    model = make_model(options.model, options.layers, "cuda")
    prune(model, sparsity)
    return model


def optimize(model, options, cases, path):
    return sparsmith.optimize(model, tokens=sorted({case[0] for case in cases}), exclude="lm_head", progress=False,
                              memory=options.memory, fuse=not options.no_fuse, output=path, arguments=options.tune)


def seconds(function, *arguments, **named):
    torch.cuda.synchronize()
    begin = time.time()
    function(*arguments, **named)
    torch.cuda.synchronize()
    return time.time() - begin


def report(**values):
    print(json.dumps({name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}),
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=SHAPES, default="llama-8b")
    parser.add_argument("--layers", type=int, default=0, help="decoder layers; 0: those of the model")
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.8])
    parser.add_argument("--cases", nargs="+", default=["1:512", "8:512"], help="batch:context")
    parser.add_argument("--ways", nargs="+", default=["compile"], choices=["compile", "graph"])
    parser.add_argument("--prefill", type=int, default=0, help="also time a prompt of so many tokens")
    parser.add_argument("--profile", nargs="?", const=pathlib.Path(), type=pathlib.Path, metavar="FOLDER",
                        help="also print what is left of a step, and write a page of each case to the folder")
    parser.add_argument("--again", action="store_true", help="also time patching from the tuned file and a warm cache")
    parser.add_argument("--no-decode", action="store_true", help="time no steps, and make no dense model beside")
    parser.add_argument("--memory", help="as of optimize()")
    parser.add_argument("--no-fuse", action="store_true", help="optimize(fuse=False)")
    parser.add_argument("--tune", nargs="*", default=[], help="further arguments of `sparsmith tune`")
    options = parser.parse_args()
    if options.profile:
        options.profile.mkdir(parents=True, exist_ok=True)
    cases = [tuple(int(number) for number in case.split(":")) for case in options.cases]
    report(device=torch.cuda.get_device_name(), torch=torch.__version__, transformers=transformers.__version__,
           sparsmith=sparsmith.__version__, model=options.model, layers=options.layers)
    dense = {}
    if not options.no_decode:
        dense_model = make_model(options.model, options.layers, "cuda")
        report(dense_model_bytes=torch.cuda.memory_allocated(),
               linear_bytes=sum(module.weight.nbytes for module in linear_layers(dense_model)))
        dense = {case: decoders(dense_model, case, options.ways) for case in cases}
    for sparsity in options.sparsity:
        before = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
        model = pruned_model(options, sparsity)
        tokens = greedy(model)
        logits = logits_of(model, tokens)
        folder = tempfile.TemporaryDirectory()
        path = folder.name + "/model.tuned.safetensors"
        begin = time.time()
        patched = optimize(model, options, cases, path)
        optimize_s = time.time() - begin
        torch.cuda.empty_cache()
        after = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
        sparse_tokens, sparse_logits = greedy(model), logits_of(model, tokens)
        same = (sparse_tokens == tokens).long().cumprod(0).sum().item()
        report(sparsity=sparsity, optimize_s=optimize_s, patched=len(patched.patched),
               linear_bytes=sum(layer.bytes for layer in patched.layers if layer.name != "lm_head"),
               allocated_bytes=after[0] - before[0], process_bytes=before[1] - after[1], equal_greedy_tokens=same,
               logits_difference=(sparse_logits - logits).abs().max().item(), logits_largest=logits.abs().max().item(),
               equal_argmax=(sparse_logits.argmax(-1) == logits.argmax(-1)).float().mean().item(),
               choices=[str(layer) for layer in patched.layers[:4]])
        if options.prefill and dense:
            report(sparsity=sparsity, prefill=options.prefill, dense_ms=prefill_ms(dense_model, options.prefill),
                   sparse_ms=prefill_ms(model, options.prefill))
        for case in dense:
            sparse = decoders(model, case, options.ways)
            times = side_by_side(dense[case], sparse)
            best = min(times, key=lambda way: times[way][0])
            report(sparsity=sparsity, batch=case[0], context=case[1], way=best, dense_ms=times[best][0],
                   sparse_ms=times[best][1], gain=times[best][0] / times[best][1],
                   tokens_per_s=case[0] / times[best][1] * 1e3, all_ms=times)
            if options.profile:
                page = options.profile / f"{options.model}_{sparsity}_{case[0]}_{case[1]}.html"
                print(sparsmith.report_model(sparse[best].graph.replay, patched, tokens=case[0], output=page,
                                             dense_step=dense[case][best].graph.replay), page, sep="\n", flush=True)
            del sparse
        del model, patched
        torch.cuda.empty_cache()
        if options.again:
            model = pruned_model(options, sparsity)
            times = {"dry_run_s": seconds(sparsmith.patch_model, model, path, dry_run=True),
                     "patch_s": seconds(sparsmith.patch_model, model, path)}
            del model
            times["warm_optimize_s"] = seconds(optimize, pruned_model(options, sparsity), options, cases, path)
            report(sparsity=sparsity, file_bytes=os.path.getsize(path), **times)


if __name__ == "__main__":
    main()
