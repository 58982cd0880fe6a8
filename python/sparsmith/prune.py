"""Prunes the linear layers of a PyTorch model in place: magnitude pruning, Wanda, and drawn weights.

Layers are `torch.nn.Linear` and transformers' `Conv1D`. Every weight is read as the operator sees it: [out_features,
in_features], so a row is one output feature. `Conv1D` stores the transpose.

Rules of `magnitude_` and `wanda_`:

- Pruned units are weights or, with a block pattern, blocks. Units with the smallest scores become zero.
- Counts are exact: `round(sparsity * units)` units are zero at least. Units that are zero already count and go first.
  Equal scores are pruned in the order of layers, rows and columns.
- Scores are fp32, whatever the dtype of the weight. NaN and infinite weights rank highest.
- Weights keep dtype, device, `requires_grad` and storage. All layers are checked before the first one changes.
- Memory beyond the model: below 200 MB, for any model size and any scope, as weights are read in chunks of 4 Mi
  weights (one row or one row of blocks if that is larger). Scopes "layer" and "model" find the threshold with a
  histogram of scores in two passes and zero the weights in a third; nothing as large as a layer is stored or sorted.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

Scope = Literal["layer", "row", "model"]
Pattern = str | tuple[int, int] | None
FilterFn = Callable[[nn.Module, str], bool]

_CHUNK = 1 << 22  # Weights read at once.
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class PrunedLayer(NamedTuple):
    """One line of the report."""

    name: str  # Fully qualified name of the module; the first one if several modules share the weight.
    shape: tuple[int, int]  # (out_features, in_features).
    zeros: int  # Zeros of the weight after pruning.


@dataclass
class _Layer:
    name: str
    weight: Tensor  # [out, in], a view of the parameter.
    modules: list[nn.Module] = field(default_factory=list)  # Several if the parameter is shared.
    squares: Tensor | None = None  # [in], fp32: sum of x^2 of each input feature.
    norms: Tensor | None = None  # [in], fp32: the root of `squares` on the device of the weight.


@dataclass
class _Shape:
    """What a pattern asks for: N of M, or blocks. A single weight is a block of 1 x 1."""

    keep: int = 0
    group: int = 0  # 0: no N:M pattern.
    rows: int = 1
    columns: int = 1
    transposable: bool = False  # 2 of 4 in rows and in columns.


def magnitude_(
    model: nn.Module,
    sparsity: float,
    *,
    scope: Scope = "layer",
    pattern: Pattern = None,
    filter_fn: FilterFn | None = None,
) -> list[PrunedLayer]:
    """Sets the weights of smallest magnitude to zero, in place.

    Args:
        model: Any module. Its Linear and Conv1D layers hold fp16, bf16, fp32 or fp64 weights.
        sparsity: Share of zeros, in [0, 1). Numbers of units are rounded by `round`: half goes to the even number.
        scope: Set of units in which scores are compared: each "layer", each "row", or the whole "model".
        pattern: None for single weights. "N:M" (for example "2:4") keeps the N largest weights of each M consecutive
            input features; `sparsity` must be 1 - N/M within 0.001, and `scope` has no effect. "2:4-transposable"
            keeps two weights of each row and of each column of an aligned 4 x 4 tile, so that the transpose is 2:4,
            too, as training wants it: of the 90 patterns that do, the one of the greatest sum of scores (Hubara et al.,
            2021, arXiv 2102.08124). (bm, bn) prunes blocks of bm output features and bn input features, scored by the
            sum of squares.
        filter_fn: `filter_fn(module, fqn)` is true for layers to prune. It is asked for Linear and Conv1D only. By
            default all layers are pruned except those whose fqn contains "lm_head".

    Returns:
        Name, shape and zeros of each pruned layer. A shared weight is pruned once and listed once.

    Raises:
        ValueError: `sparsity`, `scope` or `pattern` is invalid or they contradict; a shape is not a multiple of the
            pattern; no layer is selected; a selected weight is masked, parametrized, quantized or on the meta device.

    Example:
        >>> import torch
        >>> from sparsmith import prune
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4))
        >>> prune.magnitude_(model, 0.75)
        [PrunedLayer(name='0', shape=(4, 8), zeros=24)]
    """
    shape = _parse(sparsity, scope, pattern)
    layers = _select(model, shape, filter_fn)
    return _prune(layers, sparsity, scope, shape)


def wanda_(
    model: nn.Module,
    sparsity: float,
    inputs: Iterable[Any],
    *,
    scope: Scope = "row",
    pattern: Pattern = None,
    filter_fn: FilterFn | None = None,
) -> list[PrunedLayer]:
    """Sets the weights with the smallest Wanda score to zero, in place (Sun et al., 2024, arXiv 2306.11695).

    The score of a weight is |W[o, i]| * ||x_i||_2, where x_i holds input feature i of all calibration tokens. Norms
    come from one pass over the dense model: inputs of a layer do not reflect the pruning of earlier layers, unlike in
    the authors' layer-by-layer code. The model runs under `no_grad` in its present mode: call `model.eval()` first.
    With scope "model", a layer that sees more tokens has larger scores.

    Args:
        inputs: Calibration inputs on the model's device, read once. Each one is a tensor or another single argument, a
            tuple or list of positional arguments, or a dict of keyword arguments.
        model, sparsity, scope, pattern, filter_fn: As in `magnitude_`. Blocks are scored by the sum of squared scores.

    Returns:
        As `magnitude_`. Norms take 4 bytes for each input feature.

    Raises:
        ValueError: As in `magnitude_`; a selected layer gets no input (the error names it); an input of a layer has
            NaN or infinite values; `inputs` is itself a tensor or a dict. No weight has changed then.

    Example:
        >>> import torch
        >>> from sparsmith import prune
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4))
        >>> prune.wanda_(model, 0.5, [torch.randn(2, 5, 8)], pattern="2:4")
        [PrunedLayer(name='0', shape=(4, 8), zeros=16)]
    """
    shape = _parse(sparsity, scope, pattern)
    if isinstance(inputs, (Tensor, Mapping)):
        raise ValueError(f"inputs is a {type(inputs).__name__}, not an iterable of model inputs: pass [inputs]")  # noqa: TRY004  as for all bad arguments
    layers = _select(model, shape, filter_fn)
    _collect_norms(model, layers, inputs)
    return _prune(layers, sparsity, scope, shape)


def random_(
    model: nn.Module,
    sparsity: float,
    *,
    pattern: tuple[int, int] | None = None,
    distribution: Literal["uniform", "erk"] = "uniform",
    filter_fn: FilterFn | None = None,
    seed: int = 0,
) -> list[PrunedLayer]:
    """Sets drawn weights to zero, in place: where dynamic sparse training begins.

    Args:
        model, sparsity, filter_fn: As in `magnitude_`; `sparsity` is that of all selected layers together.
        pattern: None for single weights, (bm, bn) for blocks.
        distribution: "uniform": each layer has this sparsity. "erk": the density of a layer is proportional to
            (out_features + in_features) / (out_features * in_features), and at most 1 (Erdos-Renyi-Kernel, Evci et al.,
            2020, arXiv 1911.11134), so that small layers keep more.
        seed: Of the random numbers. The same seed draws the same weights on one kind of device.

    Returns:
        As `magnitude_`.

    Raises:
        ValueError: As in `magnitude_`, and for another distribution.

    Example:
        >>> import torch
        >>> from sparsmith import prune
        >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4))
        >>> prune.random_(model, 0.75)
        [PrunedLayer(name='0', shape=(4, 8), zeros=24)]
    """
    if distribution not in ("uniform", "erk"):
        raise ValueError(f"distribution is {distribution!r}: use 'uniform' or 'erk'")
    shape = _parse(sparsity, "layer", pattern)
    layers = _select(model, shape, filter_fn)
    densities = [1 - sparsity] * len(layers) if distribution == "uniform" else _erk([each.weight.shape for each in layers], 1 - sparsity)
    for layer, density in zip(layers, densities, strict=True):
        rows, columns = layer.weight.shape[0] // shape.rows, layer.weight.shape[1] // shape.columns
        device = layer.weight.device
        drawn = torch.rand(rows * columns, generator=torch.Generator(device).manual_seed(seed), device=device)
        pruned = torch.zeros(rows * columns, dtype=torch.bool, device=device)
        pruned[drawn.topk(rows * columns - round(density * rows * columns), sorted=False).indices] = True
        pruned = pruned.view(rows, columns).repeat_interleave(shape.rows, 0).repeat_interleave(shape.columns, 1)
        layer.weight.masked_fill_(pruned, 0)
        seed += 1
    return _report(layers)


def _erk(shapes: list[tuple[int, int]], density: float) -> list[float]:
    """The density of each weight."""
    sizes = [rows * columns for rows, columns in shapes]
    whole: set[int] = set()  # weights that keep all elements
    while True:
        rest = density * sum(sizes) - sum(sizes[i] for i in whole)
        scale = rest / max(1, sum(sum(shape) for i, shape in enumerate(shapes) if i not in whole))
        found = [1.0 if i in whole else scale * sum(shape) / size for i, (shape, size) in enumerate(zip(shapes, sizes, strict=True))]
        fuller = {i for i, each in enumerate(found) if each > 1}
        if not fuller:
            return found
        whole |= fuller


def _parse(sparsity: float, scope: str, pattern: Pattern) -> _Shape:
    if not 0 <= sparsity < 1:
        raise ValueError(f"sparsity is {sparsity}: give the share of zeros, at least 0 and below 1")
    if scope not in ("layer", "row", "model"):
        raise ValueError(f"scope is {scope!r}: use 'layer', 'row' or 'model'")
    if pattern is None:
        return _Shape()
    transposable = pattern == "2:4-transposable"
    if isinstance(pattern, str) and (match := re.fullmatch(r"(\d+):(\d+)", "2:4" if transposable else pattern)):
        keep, group = int(match[1]), int(match[2])
        if 0 < keep < group:
            if not math.isclose(sparsity, 1 - keep / group, rel_tol=0, abs_tol=1e-3):
                implied = round(1 - keep / group, 4)
                raise ValueError(f"sparsity is {sparsity}, but pattern {pattern!r} implies {implied}: pass {implied}")
            return _Shape(keep=keep, group=group, transposable=transposable)
    elif isinstance(pattern, tuple) and len(pattern) == 2 and all(isinstance(n, int) and n > 0 for n in pattern):
        return _Shape(rows=pattern[0], columns=pattern[1])
    raise ValueError(f"pattern is {pattern!r}: use None, 'N:M' with 0 < N < M, '2:4-transposable', or a block shape (rows, columns)")


def _is_conv1d(module: nn.Module) -> bool:
    return hasattr(module, "nf") and any(base.__name__ == "Conv1D" for base in type(module).__mro__)


def _select(model: nn.Module, shape: _Shape, filter_fn: FilterFn | None) -> list[_Layer]:
    """Returns the layers to prune, each parameter once, in the order of the model. Checks all of them."""
    layers: dict[int, _Layer] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if not isinstance(module, nn.Linear) and not _is_conv1d(module):
            continue
        if not (filter_fn(module, name) if filter_fn else "lm_head" not in name):
            continue
        parameter = _parameter(module, name)
        weight = parameter.detach().t() if _is_conv1d(module) else parameter.detach()
        layer = layers.setdefault(id(parameter), _Layer(name, weight))
        if all(module is not known for known in layer.modules):
            layer.modules.append(module)
        rows, columns = weight.shape
        if rows % (4 if shape.transposable else shape.rows) or columns % (shape.group or shape.columns):
            units = (
                "4 x 4 tiles" if shape.transposable
                else f"groups of {shape.group} input features" if shape.group else f"{shape.rows} x {shape.columns} blocks"
            )
            raise ValueError(
                f"layer {name!r}: weight [{rows}, {columns}] does not divide into {units}:"
                " choose another pattern or leave the layer out with filter_fn"
            )
    if not layers:
        raise ValueError("no layer to prune: the model has no Linear or Conv1D layer for which filter_fn is true")
    return list(layers.values())


def _parameter(module: nn.Module, name: str) -> nn.Parameter:
    weight = module._parameters.get("weight")
    if weight is None:
        remove = "the function that removes the reparametrization"
        if hasattr(module, "weight_mask"):
            remove = "torch.nn.utils.prune.remove(layer, 'weight')"
        elif hasattr(module, "parametrizations"):
            remove = "torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')"
        raise ValueError(f"layer {name!r}: weight is masked or parametrized, not a parameter: call {remove} first")
    if type(weight) is not nn.Parameter or weight.dtype not in _DTYPES or weight.is_meta:
        raise ValueError(
            f"layer {name!r}: weight is a {type(weight).__name__} of {weight.dtype} on {weight.device}, not a plain"
            " fp16, bf16, fp32 or fp64 parameter with data: load it so or leave the layer out with filter_fn"
        )
    return weight


def _collect_norms(model: nn.Module, layers: list[_Layer], inputs: Iterable[Any]) -> None:
    def watch(layer: _Layer) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            x = args[0] if args else next(iter(kwargs.values()))
            if x.numel():  # A batch without tokens, as of an idle expert, is no input.
                squares = x.detach().float().square().reshape(-1, x.shape[-1]).sum(0)
                layer.squares = squares if layer.squares is None else layer.squares.to(squares.device) + squares

        return hook

    handles = []
    try:
        for layer in layers:
            handles += [m.register_forward_pre_hook(watch(layer), with_kwargs=True) for m in layer.modules]
        with torch.no_grad():
            for item in inputs:
                if isinstance(item, Mapping):
                    model(**item)
                elif isinstance(item, (tuple, list)):
                    model(*item)
                else:
                    model(item)
    finally:
        for handle in handles:
            handle.remove()
    if idle := [layer.name for layer in layers if layer.squares is None]:
        raise ValueError(
            f"layers {idle} get no input: give calibration inputs that reach them or leave them out with filter_fn"
        )
    for layer in layers:
        assert layer.squares is not None
        layer.norms = layer.squares.sqrt().to(layer.weight.device)
        if not layer.norms.isfinite().all():
            raise ValueError(f"layer {layer.name!r}: inputs have NaN or infinite values: check the calibration inputs")


@torch.no_grad()
def _prune(layers: list[_Layer], sparsity: float, scope: str, shape: _Shape) -> list[PrunedLayer]:
    if shape.transposable:
        for layer in layers:
            _prune_tiles(layer)
    elif shape.group:
        for layer in layers:
            _prune_rows(layer, shape, shape.group, shape.group - shape.keep)
    elif scope == "row":
        for layer in layers:
            width = layer.weight.shape[1] // shape.columns
            _prune_rows(layer, shape, width, round(sparsity * width))
    else:
        for ranking in [layers] if scope == "model" else [[layer] for layer in layers]:
            units = sum(layer.weight.numel() for layer in ranking) // (shape.rows * shape.columns)
            _prune_ranking(ranking, shape, round(sparsity * units))
    return _report(layers)


def _report(layers: list[_Layer]) -> list[PrunedLayer]:
    return [
        PrunedLayer(name, (w.shape[0], w.shape[1]), w.numel() - int(w.count_nonzero()))
        for name, w in ((layer.name, layer.weight) for layer in layers)
    ]


def _chunks(layer: _Layer, shape: _Shape) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields, for successive rows, the weights [r, bm, c, bn] as a view and the rank keys [r, c] of their units.

    A key is the bit pattern of the fp32 score plus 1: bits of nonnegative floats sort as the floats do. Units without
    nonzeros have key 0, below units whose score is 0 for another reason (a norm of 0, underflow).
    """
    rows, columns = layer.weight.shape
    step = max(1, _CHUNK // max(1, shape.rows * columns)) * shape.rows
    for row in range(0, rows, step):
        part = layer.weight[row : row + step]
        score, zero = part.float().abs(), part == 0
        if layer.norms is not None:
            score *= layer.norms
        split = (len(part) // shape.rows, shape.rows, columns // shape.columns, shape.columns)
        view, score, zero = (tensor.view(split) for tensor in (part, score, zero))
        if shape.rows * shape.columns > 1:
            score, zero = score.square_().sum((1, 3)), zero.all(dim=3).all(dim=1)
        else:
            score, zero = score[:, 0, :, 0], zero[:, 0, :, 0]
        score.nan_to_num_(nan=math.inf, posinf=math.inf)  # The bits of a NaN may be negative.
        yield view, score.view(torch.int32).add_(1).masked_fill_(zero, 0)


def _prune_rows(layer: _Layer, shape: _Shape, width: int, count: int) -> None:
    """Zeros the `count` smallest of each `width` consecutive units of a row."""
    if count == 0:
        return
    for view, keys in _chunks(layer, shape):
        smallest = keys.reshape(-1, width).sort(dim=1, stable=True).indices[:, :count]
        mask = torch.zeros(keys.numel() // width, width, dtype=torch.bool, device=keys.device)
        mask.scatter_(1, smallest, True)
        view.masked_fill_(mask.reshape(keys.shape)[:, None, :, None], 0)


def transposable_patterns() -> Tensor:
    """The patterns [90, 16] of a 4 x 4 tile with two elements in every row and in every column."""
    rows = [[float(i in pair) for i in range(4)] for pair in itertools.combinations(range(4), 2)]
    tiles = torch.tensor(list(itertools.product(rows, repeat=4)), dtype=torch.float64)
    return tiles[(tiles.sum(1) == 2).all(1)].flatten(1)


def pruned_tiles(weight: Tensor, norms: Tensor | None = None) -> Iterator[tuple[int, Tensor]]:
    """Of some rows of a weight after the other: the first row, and which elements the pattern with the greatest sum of
    scores leaves out in their 4 x 4 tiles."""
    patterns = transposable_patterns().to(weight.device)
    rows, columns = weight.shape
    step = max(1, _CHUNK // 8 // columns // 4) * 4
    for row in range(0, rows, step):
        score = weight[row : row + step].float().abs()
        if norms is not None:
            score *= norms
        largest = torch.finfo(torch.float32).max
        score.nan_to_num_(nan=largest, posinf=largest)
        split = (len(score) // 4, 4, columns // 4, 4)
        tiles = score.view(split).transpose(1, 2).reshape(-1, 16).double()
        best = patterns[(tiles @ patterns.t()).argmax(1)]
        yield row, best.view(split[0], split[2], 4, 4).transpose(1, 2).reshape(score.shape) == 0


def _prune_tiles(layer: _Layer) -> None:
    """Zeros the eight weights of each 4 x 4 tile that its pattern leaves out."""
    for row, pruned in pruned_tiles(layer.weight, layer.norms):
        layer.weight[row : row + len(pruned)].masked_fill_(pruned, 0)


def _prune_ranking(layers: list[_Layer], shape: _Shape, count: int) -> None:
    """Zeros the `count` smallest units of all `layers` together."""
    if count == 0:
        return
    threshold, ties = _threshold(layers, shape, count)
    for layer in layers:
        for view, keys in _chunks(layer, shape):
            mask, equal = keys < threshold, keys == threshold
            if ties:
                order = equal.flatten().cumsum(0, dtype=torch.int32).reshape(keys.shape)
                mask |= equal & (order <= ties)
                ties = max(0, ties - int(equal.sum()))
            view.masked_fill_(mask[:, None, :, None], 0)


def _threshold(layers: list[_Layer], shape: _Shape, count: int) -> tuple[int, int]:
    """Returns the key of rank `count` (from 1) and how many units with this key are among the `count` smallest.

    Radix selection: a histogram of the upper 16 bits, then one of the lower 16 bits of the keys in the chosen bin.
    """

    def choose(digits: Iterable[Tensor], rank: int) -> tuple[int, int]:
        histogram = torch.zeros(1 << 16, dtype=torch.int64)
        for chunk in digits:
            histogram += torch.bincount(chunk, minlength=1 << 16).cpu()
        upto = histogram.cumsum(0)
        chosen = int(torch.searchsorted(upto, rank))
        return chosen, rank - int(upto[chosen] - histogram[chosen])

    def keys() -> Iterator[Tensor]:
        return (k.flatten() for layer in layers for _, k in _chunks(layer, shape))

    upper, rank = choose((k >> 16 for k in keys()), count)
    lower, rank = choose((k[k >> 16 == upper] & 0xFFFF for k in keys()), rank)
    return upper << 16 | lower, rank
