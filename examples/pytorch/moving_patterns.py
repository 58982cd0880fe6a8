#!/usr/bin/env python3
"""Trains sparse transformers whose patterns move (RigL, SET), beside dense ones, masked dense ones and constant patterns.

--task text: a decoder that guesses the next byte of a text (Python's help, or --text). --task digits: a vision transformer
on scikit-learn's digits (or --digits, its file digits.csv.gz). All linear layers of the blocks begin with drawn weights of
--sparsity zeros, in blocks of --block x --block. Each method runs with each seed. Prints the loss on data that were left out
(of digits also the accuracy), and the time of a step. Without a GPU the model is small.

    examples/pytorch/moving_patterns.py --task text --sparsity 0.9 --block 16 --steps 2000
"""

import argparse
import pathlib
import pydoc_data.topics
import statistics
import tempfile

import torch
from semi_sparse import Block, Step, VisionTransformer, digits, image_loss
from torch import nn

import sparsmith
from sparsmith.training import SET, RigL

METHODS = ("dense", "masked dense", "constant", "SET", "RigL")


class Decoder(nn.Module):
    """Guesses the next byte."""

    def __init__(self, hidden: int, layers: int, length: int) -> None:
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, hidden), nn.Parameter(0.02 * torch.randn(length, hidden))
        self.blocks = nn.Sequential(*(Block(hidden, causal=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, 256)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.bytes(ids) + self.places)))


def text_loss(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())


class Text:
    def __init__(self, options: argparse.Namespace, device: str) -> None:
        text = options.text.read_bytes() if options.text else "\n".join(pydoc_data.topics.topics.values()).encode()
        self.data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().to(device)
        self.options, self.loss, self.held_out = options, text_loss, len(self.data) // 10
        self.tokens = options.batch * options.length

    def model(self) -> nn.Module:
        return Decoder(self.options.hidden, self.options.layers, self.options.length)

    def _pieces(self, starts: torch.Tensor) -> torch.Tensor:
        return self.data[starts.to(self.data.device) + torch.arange(self.options.length + 1, device=self.data.device)]

    def batch(self, random: torch.Generator) -> tuple[torch.Tensor, ...]:
        return (self._pieces(torch.randint(self.held_out, len(self.data) - self.options.length - 1, (self.options.batch, 1),
                                           generator=random)),)

    def result(self, model: nn.Module) -> list[float]:
        starts = torch.arange(0, self.held_out - self.options.length - 1, self.options.length)[:, None][:8 * self.options.batch]
        return [text_loss(model, self._pieces(part)).item() for part in starts.split(self.options.batch)
                if len(part) == self.options.batch]


class Digits:
    def __init__(self, options: argparse.Namespace, device: str) -> None:
        self.images, self.labels = (each.to(device) for each in digits(options.digits))
        self.options, self.loss, self.held_out = options, image_loss, len(self.images) // 5
        self.tokens = 16 * options.batch

    def model(self) -> nn.Module:
        return VisionTransformer(self.options.hidden, self.options.layers)

    def batch(self, random: torch.Generator) -> tuple[torch.Tensor, ...]:
        chosen = torch.randint(self.held_out, len(self.images), (self.options.batch,), generator=random).to(self.images.device)
        return self.images[chosen], self.labels[chosen]

    def result(self, model: nn.Module) -> list[float]:
        return [image_loss(model, self.images[:self.held_out], self.labels[:self.held_out]).item()]


def in_block(_module: nn.Module, name: str) -> bool:
    return name.startswith("blocks.")


def begin_sparse(model: nn.Module, options: argparse.Namespace, seed: int) -> None:
    """Prunes the blocks at random; their outputs stay as large as those of dense layers."""
    sparsmith.prune.random_(model, options.sparsity, pattern=(options.block, options.block), filter_fn=in_block, seed=seed)
    for name, parameter in model.named_parameters():
        if in_block(model, name) and name.endswith(".weight") and parameter.dim() == 2:
            parameter.data /= (1 - options.sparsity) ** 0.5


def make_sparse(model: nn.Module, task: Text | Digits, moving_block: int, folder: pathlib.Path) -> None:
    """Kernels for patterns that move are tuned once: they serve any pattern with as many elements."""
    file = folder / "moving.tuned.safetensors"
    if moving_block and file.exists():
        sparsmith.patch_model(model, sparsmith.load(file, training=True, moving_block=moving_block), training=True)
        return
    sparsmith.optimize(model, training=True, moving_block=moving_block, tokens=(task.tokens,), dtype=torch.bfloat16,
                       filter_fn=in_block, progress=False, output=file if moving_block else None)


def train(task: Text | Digits, method: str, seed: int, options: argparse.Namespace, device: str,
          folder: pathlib.Path) -> tuple[float, float]:
    """The loss on data that were left out, and milliseconds of a step (the median)."""
    torch.manual_seed(seed)
    model, masks, schedule = task.model().to(device), {}, None
    if method != "dense":
        begin_sparse(model, options, seed)
    if method == "masked dense":
        masks = {layer.weight: layer.weight.detach() != 0 for name, layer in model.named_modules()
                 if isinstance(layer, nn.Linear) and in_block(layer, name)}
    elif method != "dense":
        make_sparse(model, task, 0 if method == "constant" else options.block, folder)

    @torch.no_grad()
    def mask() -> None:
        if masks:
            torch._foreach_mul_([*masks], [*masks.values()])

    def loss(*arguments: torch.Tensor) -> torch.Tensor:
        mask()  # a part of the step, and of its time
        return task.loss(*arguments)

    run = Step(model, loss, options.rate, device)
    if method in ("SET", "RigL"):
        schedule = {"SET": SET, "RigL": RigL}[method](model, run.optimizer, steps=options.steps, interval=options.interval,
                                                     seed=seed)
    rates = torch.optim.lr_scheduler.OneCycleLR(run.optimizer, options.rate, total_steps=options.steps, pct_start=0.1,
                                                cycle_momentum=False)
    random, times = torch.Generator().manual_seed(seed), []
    for _ in range(options.steps):
        _, ms = run(*task.batch(random), captured=not (schedule and schedule.moves_next))
        if ms is not None:
            times.append(ms)
        if schedule:
            schedule.step()
        rates.step()
    mask()
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        return statistics.mean(task.result(model.eval())), statistics.median(times)


def main() -> None:
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=("text", "digits"), default="text")
    parser.add_argument("--text", type=pathlib.Path, help="a text file")
    parser.add_argument("--digits", type=pathlib.Path, help="scikit-learn's digits.csv.gz; default: scikit-learn")
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--block", type=int, default=16, help="side of the blocks; 1: single elements")
    parser.add_argument("--hidden", type=int, default=512 if gpu else 64, help="hidden size, a multiple of 64")
    parser.add_argument("--layers", type=int, default=4 if gpu else 1)
    parser.add_argument("--batch", type=int, default=64 if gpu else 8)
    parser.add_argument("--length", type=int, default=256 if gpu else 32, help="bytes of a sequence")
    parser.add_argument("--steps", type=int, default=2000 if gpu else 6)
    parser.add_argument("--interval", type=int, default=100 if gpu else 2, help="steps between updates of the patterns")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options = parser.parse_args()
    task = {"text": Text, "digits": Digits}[options.task](options, device)
    with tempfile.TemporaryDirectory() as folder:
        for method in options.methods:
            runs = [train(task, method, seed, options, device, pathlib.Path(folder)) for seed in options.seeds]
            losses, times = zip(*runs, strict=True)
            print(f"{method:>12}: loss {statistics.mean(losses):.4f} ({', '.join(f'{loss:.4f}' for loss in losses)}), "
                  f"{statistics.median(times):.2f} ms a step", flush=True)


if __name__ == "__main__":
    main()
