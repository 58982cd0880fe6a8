"""Patterns that move in training: RigL and SET on sparse layers, gradual pruning of dense ones.

    sparsmith.prune.random_(model, 0.9, pattern=(16, 16), distribution="erk")
    sparsmith.optimize(model, training=True, moving_block=16, tokens=(8192,), dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    patterns = sparsmith.training.RigL(model, optimizer, steps=10_000)
    for batch in batches:
        loss(model, batch).backward()
        optimizer.step()
        patterns.step()
        optimizer.zero_grad()
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed, nn

from sparsmith import patterns
from sparsmith.layers import linear_layers, parameter_of, trains
from sparsmith.patterns import BlockPattern, Carry
from sparsmith.trainable_linear import TrainableSparseLinear


class _MovingPatterns:
    """The schedule of updates, for :class:`RigL` and :class:`SET`."""

    watches = False  # the gradient of the dense weight

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, steps: int, interval: int = 100,
                 fraction: float = 0.3, end: float = 0.75, seed: int = 0) -> None:
        if steps < 1 or interval < 1 or not 0 < fraction <= 1 or not 0 <= end <= 1:
            raise ValueError(f"steps={steps}, interval={interval}, fraction={fraction}, end={end}: steps and interval are 1 or "
                             "more, fraction is above 0 and at most 1, end is from 0 to 1")
        self.layers = {name: module for name, module in model.named_modules()
                       if isinstance(module, TrainableSparseLinear) and module.moving_block}
        if not self.layers:
            raise ValueError("the model has no layer whose pattern may move: call sparsmith.optimize(model, training=True, "
                             "moving_block=1, ...) first, or with the side of the blocks")
        self.optimizer, self.interval, self.fraction = optimizer, interval, fraction
        self.last = int(end * steps)  # no update after this step
        self.steps_done = 0
        self._generator = torch.Generator().manual_seed(seed)
        self._watch()

    def _due(self, step: int) -> bool:
        return step % self.interval == 0 and 0 < step <= self.last

    def _watch(self) -> None:
        """The step that comes next has an update: its backward computes dense gradients."""
        for layer in self.layers.values():
            layer.watch_dense_gradient(self.watches and self.moves_next)

    @property
    def moves_next(self) -> bool:
        """Whether the next :meth:`step` moves the patterns. In a training with captured CUDA graphs run the model of that step
        without its graph: the graph that was captured does not compute the dense gradient. All others stay valid."""
        return self._due(self.steps_done + 1)

    def moved_share(self) -> float:
        """Of the units of a layer, the share that the next update moves."""
        return self.fraction / 2 * (1 + math.cos(math.pi * self.steps_done / max(1, self.last)))

    @torch.no_grad()
    def step(self) -> bool:
        """Counts a step of training, and moves the patterns if it is time: values and moments of units that stay are kept,
        new ones begin at 0. Call it after ``optimizer.step()``. With several processes patterns come from rank 0. Returns
        whether they moved. Raises SparsmithError where a packed weight has no room for a pattern; this layer and those behind
        it then keep theirs."""
        self.steps_done += 1
        due = self._due(self.steps_done)
        if due:
            for layer in self.layers.values():
                self._move(layer)
        self._watch()
        return due

    def _move(self, layer: TrainableSparseLinear) -> None:
        growth = self._growth(layer)
        held = layer.block_pattern()
        first = not distributed.is_initialized() or distributed.get_rank() == 0
        blocks = self._chosen(layer, held, growth) if first else torch.empty_like(held.blocks)
        if distributed.is_initialized():
            distributed.broadcast(blocks, 0)
        carry_state(self.optimizer, layer.values, layer.update_pattern(BlockPattern(blocks, held.side, held.shape)))

    def _chosen(self, layer: TrainableSparseLinear, held: BlockPattern, growth: torch.Tensor) -> torch.Tensor:
        """The blocks of the new pattern: those of smallest norm leave, those of greatest growth come."""
        blocks = held.blocks
        mask = torch.zeros(held.grid[0] * held.grid[1], dtype=torch.bool, device=blocks.device)
        mask[blocks] = True
        count = min(round(self.moved_share() * len(blocks)), len(mask) - len(blocks))
        if count:
            mask[blocks[held.norms(layer.values.detach()).topk(count, largest=False, sorted=False).indices]] = False
            mask[growth.masked_fill_(mask, -1).topk(count, sorted=False).indices] = True
        return mask.nonzero().view(-1)

    def _growth(self, layer: TrainableSparseLinear) -> torch.Tensor:
        """How much each unit deserves to come: [units], not negative."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The number of steps, and the state of random numbers. Patterns are in the state of the model."""
        return {"steps_done": self.steps_done, "generator": self._generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state. Load the model's and the optimizer's as well."""
        self.steps_done = state["steps_done"]
        self._generator.set_state(state["generator"])
        self._watch()


class RigL(_MovingPatterns):
    """Dynamic sparse training by magnitude and gradient (Evci et al., 2020, arXiv 1911.11134): every ``interval`` steps units
    of smallest norm leave the pattern of each layer, and as many units with the greatest norm of the gradient of the dense
    weight come. Units are elements, or blocks, as of the layers' ``moving_block``. A unit that just left may come back, with
    its values.

    ``model``: with layers of :func:`sparsmith.optimize` with ``training=True, moving_block=...``. ``optimizer``: its moments
    move with the patterns. ``steps``: of the whole training; updates end after the share ``end`` of them. ``fraction``: of the
    units of a layer that the first update moves; it decays as a cosine. ``seed``: of the units that :class:`SET` draws.

    The backward before an update computes the dense gradient of each layer, M K elements of the type of ``values``, besides; those
    of all layers are there at once, until the update. Raises ValueError for
    numbers out of range and a model without such layers.
    """

    watches = True

    def _growth(self, layer: TrainableSparseLinear) -> torch.Tensor:
        gradient = layer.dense_zeros.grad
        if gradient is None:
            raise RuntimeError("there is no gradient of the dense weight: call step() after backward, in the step in which the "
                               "model ran with gradients")
        layer.dense_zeros.grad = None
        if distributed.is_initialized():
            distributed.reduce(gradient, 0)
        if layer.moving_block == 1:
            scores = gradient.abs_()
        else:
            blocks = patterns.blocked(gradient, layer.moving_block)
            scores = torch.linalg.vector_norm(blocks, dim=(2, 3), dtype=torch.float32)
        return scores.nan_to_num_(0, 0, 0).view(-1)


class SET(_MovingPatterns):
    """Sparse evolutionary training (Mocanu et al., 2018, arXiv 1707.04780): as :class:`RigL`, with units that come drawn at
    random, so that no dense gradient is computed."""

    def _growth(self, layer: TrainableSparseLinear) -> torch.Tensor:
        units = layer.out_features * layer.in_features // layer.moving_block**2
        seed = int(torch.randint(2**62, (1,), generator=self._generator))
        device = layer.values.device
        return torch.rand(units, generator=torch.Generator(device).manual_seed(seed), device=device)


def carry_state(optimizer: torch.optim.Optimizer, values: nn.Parameter, carry: Carry) -> None:
    """Moves what an optimizer holds for each element of ``values``, such as moments, and the gradient, with a pattern."""
    for tensor in [values.grad, *optimizer.state.get(values, {}).values()]:
        if isinstance(tensor, torch.Tensor) and tensor.shape == values.shape:
            tensor.copy_(carry(tensor))


class GradualPruning:
    """Prunes dense linear layers in training, ever more: after step t the share of zeros is
    ``sparsity * (1 - (1 - t / T) ** 3)``, T = ``end * steps`` (Zhu and Gupta, 2017, arXiv 1710.01878). Then
    :func:`sparsmith.optimize` makes the layers sparse.

    ``usefulness``: what decides. "magnitude": the norm of a unit. "gradient": the sum over all steps of |w dL/dw|, how much
    the loss depends on the unit (Molchanov et al., 2019, arXiv 1906.10771). "movement": the sum of -w dL/dw, how far training
    moves the unit from 0 (Sanh et al., 2020, arXiv 2005.07683). ``block``: the side of the units. ``filter_fn(module, name)``:
    the layers; by default all but those with "lm_head" in their name. Pruned elements stay 0.

    Call :meth:`step` after each ``optimizer.step()``. Raises ValueError for numbers out of range, a model without layers to
    prune, and shapes that are no multiple of ``block``.
    """

    def __init__(self, model: nn.Module, *, sparsity: float, steps: int, interval: int = 100, end: float = 0.75,
                 usefulness: str = "magnitude", block: int = 1,
                 filter_fn: Callable[[nn.Module, str], bool] | None = None) -> None:
        if not 0 < sparsity < 1 or steps < 1 or interval < 1 or not 0 < end <= 1:
            raise ValueError(f"sparsity={sparsity}, steps={steps}, interval={interval}, end={end}: sparsity is between 0 and 1, "
                             "steps and interval are 1 or more, end is above 0 and at most 1")
        if usefulness not in ("magnitude", "gradient", "movement"):
            raise ValueError(f"usefulness is {usefulness!r}: use 'magnitude', 'gradient' or 'movement'")
        self.weights: dict[str, nn.Parameter] = {}
        for name, module in linear_layers(model).items():
            if not trains(module) and (filter_fn(module, name) if filter_fn else "lm_head" not in name):
                weight = parameter_of(module)
                patterns.blocked(weight.detach(), block)
                self.weights[name + ".weight" if name else "weight"] = weight
        if not self.weights:
            raise ValueError("no layer to prune: the model has no dense linear layer for which filter_fn is true")
        self.sparsity, self.interval, self.last = sparsity, interval, max(1, int(end * steps))
        self.usefulness, self.block, self.steps_done = usefulness, block, 0
        self.masks = {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in self.weights.items()}
        self.sums = {}
        if usefulness != "magnitude":
            for name, weight in self.weights.items():
                self.sums[name] = torch.zeros_like(weight)
                weight.register_post_accumulate_grad_hook(self._adder(self.sums[name]))

    def _adder(self, total: torch.Tensor) -> Callable[[nn.Parameter], None]:
        @torch.no_grad()
        def add(weight: nn.Parameter) -> None:
            product = weight * weight.grad
            total.add_(product.abs() if self.usefulness == "gradient" else product.neg())

        return add

    def scores(self, name: str) -> torch.Tensor:
        """The usefulness of each unit of a weight: [rows / block, cols / block], of float32."""
        if self.usefulness == "magnitude":
            return patterns.blocked(self.weights[name].detach().float().square(), self.block).sum((2, 3))
        return patterns.blocked(self.sums[name].float(), self.block).sum((2, 3))

    def present_sparsity(self) -> float:
        """The share of zeros after the steps that are done."""
        return self.sparsity * (1 - (1 - min(1.0, self.steps_done / self.last)) ** 3)

    @torch.no_grad()
    def step(self) -> None:
        """Counts a step of training; every ``interval`` steps, and at the last one, prunes more."""
        self.steps_done += 1
        prunes = self.steps_done <= self.last and (self.steps_done % self.interval == 0 or self.steps_done == self.last)
        for name, weight in self.weights.items():
            mask = self.masks[name]
            if prunes:
                scores = self.scores(name)
                kept = patterns.blocked(mask, self.block)[:, :, 0, 0]
                count = round(self.present_sparsity() * scores.numel())
                order = scores.masked_fill_(~kept, -math.inf).view(-1).topk(count, largest=False, sorted=False).indices
                units = torch.ones_like(kept).contiguous()
                units.view(-1)[order] = False
                mask.copy_(units.repeat_interleave(self.block, 0).repeat_interleave(self.block, 1))
            weight.mul_(mask)

    def state_dict(self) -> dict[str, Any]:
        """Steps, masks and sums."""
        return {"steps_done": self.steps_done, "masks": self.masks, "sums": self.sums}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state. Load the model's and the optimizer's as well."""
        self.steps_done = state["steps_done"]
        for own, other in ((self.masks, state["masks"]), (self.sums, state["sums"])):
            for name, tensor in own.items():
                tensor.copy_(other[name])


__all__ = ["SET", "GradualPruning", "RigL", "carry_state"]
