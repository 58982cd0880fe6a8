#!/usr/bin/env python3
"""Trains a BERT encoder on text three times: dense, with block-sparse layers, and dense with masks that hold the zeros.

The feed-forward layers keep a share of blocks, those of largest norm in the drawn weights. All three runs see the same
bytes, masked at the same places, and guess the masked ones. Prints the loss, the time of a step and the memory of each;
--plot draws the losses as an SVG file. The text is that of Python's help, or --text. Without a GPU the kernels are
predicted and slow versions of them run.

    examples/pytorch/train_blocks.py --hidden 2048 --layers 12 --density 0.1 --steps 2000 --compile --plot loss.svg
"""

import argparse
import copy
import pathlib
import pydoc_data.topics
import statistics
import time
from collections.abc import Iterator

import torch
import transformers
from torch.nn.utils import prune

import sparsmith

MASK = 256  # the token behind the bytes
COLOURS = {"dense": "#999999", "masked dense": "#d55e00", "block-sparse": "#0072b2"}


def batches(text: bytes, options: argparse.Namespace, device: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pieces of the text with 15 % of the bytes masked, and these bytes: -100 for the others."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    random = torch.Generator().manual_seed(options.seed)
    for _ in range(options.steps):
        starts = torch.randint(len(data) - options.length, (options.batch, 1), generator=random)
        ids = data[starts + torch.arange(options.length)]
        masked = torch.rand(ids.shape, generator=random) < 0.15
        yield ids.masked_fill(masked, MASK).to(device), ids.masked_fill(~masked, -100).to(device)


def encoder(options: argparse.Namespace) -> transformers.BertForMaskedLM:
    torch.manual_seed(options.seed)
    config = transformers.BertConfig(vocab_size=MASK + 1, hidden_size=options.hidden, intermediate_size=4 * options.hidden,
                                     num_hidden_layers=options.layers, num_attention_heads=max(1, options.hidden // 64),
                                     max_position_embeddings=options.length, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    return transformers.BertForMaskedLM(config)


def is_pruned(_module: torch.nn.Module, name: str) -> bool:
    return ".intermediate.dense" in name or (name.endswith(".output.dense") and ".attention." not in name)


def train(model: torch.nn.Module, text: bytes, options: argparse.Namespace, device: str) -> tuple[list[float], list[float]]:
    """The losses, and the seconds of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (options.steps // 20 + 1)))
    run = torch.compile(model) if options.compile else model
    losses, times = [], []
    for ids, labels in batches(text, options, device):
        begin = time.perf_counter()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = run(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - begin)
    return losses, times


def smooth(losses: list[float]) -> list[float]:
    """Means of up to 100 equal parts."""
    size = max(1, len(losses) // 100)
    return [sum(losses[at:at + size]) / size for at in range(0, len(losses) - size + 1, size)]


def svg(lines: dict[str, list[float]], steps: int) -> str:
    """A line of losses for each run."""
    width, height, left, top, right, bottom = 640, 400, 50, 20, 20, 40
    low, high = (pick(value for line in lines.values() for value in line) for pick in (min, max))

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'

    parts = [text(left - 6, top + 8, f"{high:.2f}", "end"), text(left - 6, height - bottom, f"{low:.2f}", "end"),
             text(left, height - 14, "0"), text(width - right, height - 14, f"{steps} steps", "end")]
    for row, (name, line) in enumerate(lines.items()):
        points = [(left + at / max(1, len(line) - 1) * (width - left - right),
                   top + (high - value) / (high - low or 1.0) * (height - top - bottom)) for at, value in enumerate(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts += [f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>',
                  f'<text x="{width - right}" y="{top + 18 * (row + 1)}" text-anchor="end" fill="{COLOURS[name]}">{name}</text>']
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="13"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n')


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, help="a text file")
    parser.add_argument("--hidden", type=int, default=1024 if gpu else 64, help="hidden size, a multiple of 64")
    parser.add_argument("--layers", type=int, default=4 if gpu else 1)
    parser.add_argument("--density", type=float, default=0.25, help="share of blocks that are kept")
    parser.add_argument("--block", type=int, default=32, help="side of a block")
    parser.add_argument("--batch", type=int, default=32 if gpu else 4)
    parser.add_argument("--length", type=int, default=256 if gpu else 32, help="bytes of a sequence")
    parser.add_argument("--steps", type=int, default=2000 if gpu else 4)
    parser.add_argument("--rate", type=float, default=3e-4, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--predict", action="store_true", help="choose kernels by the cost model, without timing them")
    parser.add_argument("--only", choices=COLOURS, help="one of the runs")
    parser.add_argument("--plot", type=pathlib.Path, help="an SVG file to write")
    options = parser.parse_args()
    device = "cuda" if gpu else "cpu"
    text = options.text.read_bytes() if options.text else "\n".join(pydoc_data.topics.topics.values()).encode()

    dense = encoder(options)
    pruned = copy.deepcopy(dense)
    sparsmith.prune.magnitude_(pruned, 1 - options.density, pattern=(options.block, options.block), filter_fn=is_pruned)

    def masked() -> torch.nn.Module:
        model = copy.deepcopy(pruned)
        for name, module in model.named_modules():
            if is_pruned(module, name):
                prune.custom_from_mask(module, "weight", module.weight != 0)
        return model.to(device)

    def sparse() -> torch.nn.Module:
        model = copy.deepcopy(pruned).to(device)
        begin = time.perf_counter()
        print(sparsmith.optimize(model, training=True, tokens=(options.batch * options.length,), dtype=torch.bfloat16,
                                 filter_fn=is_pruned, device="none" if options.predict else None, progress=False))
        print(f"tuned in {time.perf_counter() - begin:.1f} s", flush=True)
        return model

    lines = {}
    for name, make in {"dense": lambda: copy.deepcopy(dense).to(device), "masked dense": masked, "block-sparse": sparse}.items():
        if options.only not in (None, name):
            continue
        model = make()
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        losses, times = train(model, text, options, device)
        lines[name] = smooth(losses)
        memory = f", at most {torch.cuda.max_memory_allocated() / 1e9:.2f} GB" if gpu else ""
        print(f"{name:>12}: loss {losses[0]:.3f} -> {lines[name][-1]:.4f}, {1e3 * statistics.median(times):.1f} ms a step, "
              f"the first one {times[0]:.1f} s{memory}", flush=True)
        del model
    if options.plot:
        options.plot.write_text(svg(lines, options.steps), encoding="utf-8")
        print(options.plot)


if __name__ == "__main__":
    main()
