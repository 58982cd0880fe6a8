#!/usr/bin/env python3
"""Chooses the layers that become sparse: by name, by a function of the module, and by the gain that was measured.

The model is a drawn stack of feed-forward layers. It is tuned once. Each choice of layers is first a dry run.

    examples/pytorch/custom_filter.py --width 4096 --blocks 4 --least-gain 1.5
"""

import argparse
import pathlib
import tempfile

import torch
from torch import nn

import sparsmith


class FeedForward(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.gate = nn.Linear(width, 8)  # small: launches decide

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x))) * self.gate(x).sigmoid().mean(-1, keepdim=True)


def show(title: str, report: sparsmith.PatchReport) -> None:
    print(f"\n{title}: {len(report.patched)} of {len(report.layers)} layers would become sparse")
    for layer in report.layers:
        print(f"  {layer.name:<8} {layer.reason or 'sparse'}")


@torch.no_grad()
def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=4096 if gpu else 256)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--least-gain", type=float, default=1.2, help="least speedup at one token for a sparse layer")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    device, dtype = ("cuda", torch.float16) if gpu else ("cpu", torch.float32)
    model = nn.Sequential(*(FeedForward(arguments.width) for _ in range(arguments.blocks))).to(device, dtype).eval()
    sparsmith.prune.magnitude_(model, arguments.sparsity)
    x = torch.randn(3, arguments.width, device=device, dtype=dtype)
    expected = model(x)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.tuned.safetensors"
        sparsmith.tune(model, path, tokens=(1, 8), progress=False)
        file = sparsmith.load(path, trusted=True)

        every = sparsmith.patch_model(model, file, dry_run=True)
        show("every layer", every)
        show("by name", sparsmith.patch_model(model, file, dry_run=True, include=r"\.(up|down)$", exclude=r"^0\."))

        def is_large(module: nn.Module, name: str) -> bool:
            return module.out_features >= 64

        show("by module", sparsmith.patch_model(model, file, dry_run=True, filter_fn=is_large))

        worth = {layer.name for layer in every.patched if layer.gains.get(1, 0.0) >= arguments.least_gain}
        report = sparsmith.patch_model(model, file, filter_fn=lambda module, name: name in worth)
    print(f"\nby gain, at least {arguments.least_gain}x at one token:\n{report}")
    torch.testing.assert_close(model(x), expected, rtol=0.02, atol=0.02)
    print("outputs agree with the dense model")


if __name__ == "__main__":
    main()
