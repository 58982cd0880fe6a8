#!/usr/bin/env python3
"""Times a batch through an encoder of BERT-base's shapes, dense and with the layers of sparsmith.optimize(), side by side.

Random weights, fp16, pruned by magnitude; eager and in a CUDA graph. Prints one JSON object a sparsity.
"""

import argparse
import json
import statistics
import time

import torch
import transformers

import sparsmith


def graphed(model, ids):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(ids)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(ids).last_hidden_state
    return graph, output


def ms(graph, steps=10):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(steps):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / steps


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sparsity", type=float, nargs="+", default=[0.8])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    options = parser.parse_args()
    ids = torch.randint(30_000, (options.batch, options.length), device="cuda")
    for sparsity in options.sparsity:
        torch.manual_seed(0)
        model = transformers.BertModel(transformers.BertConfig(), add_pooling_layer=False).half().cuda().eval()
        sparsmith.prune.magnitude_(model, sparsity)
        dense, expected = graphed(model, ids)
        begin = time.time()
        report = sparsmith.optimize(model, tokens=(ids.numel(),), progress=False)
        seconds = time.time() - begin
        sparse, output = graphed(model, ids)
        times = [(ms(dense), ms(sparse)) for _ in range(7)]
        dense_ms, sparse_ms = (statistics.median(column) for column in zip(*times, strict=True))
        print(json.dumps({"device": torch.cuda.get_device_name(), "sparsity": sparsity, "tokens": ids.numel(),
                          "optimize_s": round(seconds, 1), "dense_ms": round(dense_ms, 3),
                          "sparse_ms": round(sparse_ms, 3), "patched": len(report.patched),
                          "dense_bytes": report.dense_bytes, "bytes": report.bytes,
                          "largest_difference": (output - expected).abs().max().item(),
                          "largest": expected.abs().max().item(),
                          "reasons": sorted({layer.reason for layer in report.layers})}), flush=True)


if __name__ == "__main__":
    main()
