#!/usr/bin/env python3
"""Trains a small vision transformer on handwritten digits, with 2:4 weights for a share of the steps.

The feed-forward layers prune their weights 2:4 in each forward, for 0, 40, 70 and 100 % of the steps, and are dense for
the rest. All runs begin with the same weights and see the same images. Prints the accuracy on images that were left out,
and the time of 2:4 and of dense steps. The images are those of scikit-learn's load_digits, or --digits, its file
digits.csv.gz. Without a GPU the model is small, and dense products take the pruned weights.

    examples/pytorch/semi_sparse.py --hidden 1024 --layers 8 --steps 400
"""

import argparse
import copy
import gzip
import pathlib
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import sparsmith


class Block(nn.Module):
    def __init__(self, hidden: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = max(1, hidden // 64), causal
        self.norms = nn.ModuleList([nn.LayerNorm(hidden), nn.LayerNorm(hidden)])
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class VisionTransformer(nn.Module):
    """Of images of 8 x 8 pixels, cut into 16 patches."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.patches, self.places = nn.Linear(4, hidden), nn.Parameter(0.5 * torch.randn(16, hidden))
        self.blocks = nn.Sequential(*(Block(hidden) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches = images.view(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
        return self.head(self.norm(self.blocks(self.patches(patches) + self.places)).mean(1))


def digits(path: pathlib.Path | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Images [n, 64] with values around 0, and their digits."""
    if path is None:
        from sklearn import datasets  # not needed with a file

        images, labels = datasets.load_digits(return_X_y=True)
        return torch.tensor(images).float() / 8 - 1, torch.tensor(labels).long()
    with gzip.open(path, "rt") as file:
        rows = torch.tensor([[float(number) for number in line.split(",")] for line in file])
    return rows[:, :64] / 8 - 1, rows[:, 64].long()


class Step:
    """A step of training on a batch. On a GPU it is captured in a CUDA graph after some steps: the host would need longer than
    the GPU. ``loss(model, *batch)``."""

    def __init__(self, model: nn.Module, loss: Callable[..., torch.Tensor], rate: float, device: str) -> None:
        self.model, self.loss, self.device, self.gpu = model, loss, device, device == "cuda"
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(rate, device=device), weight_decay=0.05,
                                           capturable=self.gpu)
        self.batch: list[torch.Tensor] = []
        self.forget()

    def forget(self) -> None:
        """Captures anew, as the model changed."""
        self.graph, self.eager_steps = None, 0

    def _run(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, dtype=torch.bfloat16):
            loss = self.loss(self.model, *self.batch)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def __call__(self, *batch: torch.Tensor, captured: bool = True) -> tuple[torch.Tensor, float | None]:
        """The loss, and the milliseconds of the step; None for those to warm up. ``captured``: False runs without the graph."""
        if not self.batch:
            self.batch = [each.clone() for each in batch]
            self.stream = torch.cuda.Stream() if self.gpu else None
        for own, each in zip(self.batch, batch, strict=True):
            own.copy_(each)
        if self.gpu:
            torch.cuda.synchronize()
        begin, replays = time.perf_counter(), self.graph is not None and captured
        if not self.gpu:
            return self._run(), 1e3 * (time.perf_counter() - begin)
        if replays:
            self.graph.replay()
            loss = self.captured_loss
        else:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                loss = self._run()
            torch.cuda.current_stream().wait_stream(self.stream)
            self.eager_steps += 1
        torch.cuda.synchronize()
        ms = 1e3 * (time.perf_counter() - begin)
        if self.graph is None and self.eager_steps == 3 and captured:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.captured_loss = self._run()
        return loss, ms if replays else None


def image_loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(images).float(), labels)


def train(model: nn.Module, share: float, images: torch.Tensor, labels: torch.Tensor, options: argparse.Namespace,
          device: str) -> dict[bool, float]:
    """Milliseconds of a step, by whether it was 2:4."""
    run = Step(model, image_loss, options.rate, device)
    rates = torch.optim.lr_scheduler.OneCycleLR(run.optimizer, options.rate, total_steps=options.steps, pct_start=0.1,
                                                cycle_momentum=False)
    schedule = sparsmith.SparseThenDense(model, steps=options.steps, sparse=share)
    random = torch.Generator().manual_seed(options.seed)
    times: dict[bool, list[float]] = {}
    for _ in range(options.steps):
        chosen = torch.randint(len(images), (options.batch,), generator=random).to(device)
        sparse = schedule.layers[0].enabled
        _, ms = run(images[chosen], labels[chosen])
        if ms is not None:
            times.setdefault(sparse, []).append(ms)
        rates.step()
        schedule.step()
        if schedule.layers[0].enabled != sparse:
            run.forget()
    return {sparse: statistics.median(each) for sparse, each in times.items()}


def main() -> None:
    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--digits", type=pathlib.Path, help="scikit-learn's digits.csv.gz; default: scikit-learn")
    parser.add_argument("--hidden", type=int, default=1024 if gpu else 64, help="hidden size, a multiple of 64")
    parser.add_argument("--layers", type=int, default=8 if gpu else 2)
    parser.add_argument("--batch", type=int, default=512 if gpu else 64, help="images, of 16 tokens each")
    parser.add_argument("--steps", type=int, default=400 if gpu else 20)
    parser.add_argument("--rate", type=float, default=3e-4 if gpu else 2e-3, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.4, 0.7, 1.0], help="of steps that are 2:4")
    options = parser.parse_args()

    images, labels = (each.to(device) for each in digits(options.digits))
    held_out = len(images) // 5
    torch.manual_seed(options.seed)
    drawn = VisionTransformer(options.hidden, options.layers).to(device)
    for share in options.shares:
        model = copy.deepcopy(drawn)
        sparsmith.swap_linear_with_semi_sparse_linear(model, tokens=(16 * options.batch,), dtype=torch.bfloat16,
                                                      filter_fn=lambda _module, name: ".mlp." in name)
        begin = time.perf_counter()
        times = train(model, share, images[held_out:], labels[held_out:], options, device)
        seconds = time.perf_counter() - begin
        with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
            right = (model.eval()(images[:held_out]).argmax(1) == labels[:held_out]).float().mean().item()
        text = ", ".join(f"{'2:4' if sparse else 'dense'} {ms:.1f} ms a step" for sparse, ms in times.items())
        print(f"{100 * share:3.0f} % of steps 2:4: accuracy {100 * right:.1f} %, {seconds:.1f} s; {text}", flush=True)


if __name__ == "__main__":
    main()
