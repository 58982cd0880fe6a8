"""2:4 training: dense weights that are pruned on the way into each product."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import torch
from torch import nn

from sparsmith import ops, prune
from sparsmith._library import SparsmithError
from sparsmith.layers import is_linear, linear_layers, names_of, replace_module
from sparsmith.tuned_file import TunedWeight, load
from sparsmith.tuning import tune_layer

_tuned: dict[tuple, TunedWeight | None] = {}  # by shape, types, tokens, GPU and options: any weight of a shape has these kernels


class SemiSparseLinear(nn.Linear):
    """``nn.Linear`` whose products take its weight pruned 2:4: ``y = x @ prune(weight).T + bias``.

    ``weight`` and ``bias`` are those of ``nn.Linear``: optimizers, checkpoints and DDP see no difference. Each forward prunes
    the weight such that every row and every column of an aligned 4 x 4 tile keeps two elements, the pattern of the greatest sum
    of magnitudes (Hubara et al., 2021, arXiv 2102.08124). One kernel does so and writes the weight and its transpose for sparse
    tensor cores, which compute the product and the gradient of x. The gradient of the weight is that of a dense layer: it
    passes through the mask (the straight-through estimator), so that pruned elements can return.

    x: [..., in_features], y: [..., out_features], of the type of the kernels: float16 or bfloat16. The weight has this type, or
    is float32 under ``torch.autocast``. Where no kernels fit, the layer multiplies by the pruned weight densely, with the same
    results: for shapes for which 2:4 is not faster, for other types, on GPUs without NVRTC, and in a process that does not
    have the files of the one that pickled the layer. Of patterns with equal sums it may then keep another one.

    ``mask``: None, or the elements that each forward keeps, [out_features, in_features] of bool (:meth:`hold_mask`).
    ``enabled``: False makes the layer dense. Make the layer with :meth:`from_linear` or
    :func:`sparsmith.swap_linear_with_semi_sparse_linear`.

    Example:
        >>> import torch
        >>> from sparsmith import SemiSparseLinear
        >>> layer = SemiSparseLinear(4, 4, bias=False)
        >>> y = layer(torch.eye(4))  # the pruned weight
        >>> int((y != 0).sum())
        8
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self._begin()

    def _begin(self) -> None:
        self.enabled = True
        self.tuned: TunedWeight | None = None
        self.register_buffer("mask", None)

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, tokens: Iterable[int], dtype: torch.dtype | None = None, search: bool = False,
                    **options) -> SemiSparseLinear:
        """A layer with the parameters of ``linear``, which both then share, tuned for these numbers of tokens.

        ``dtype``: of the kernels; by default the type of the weight, and bfloat16 for float32. ``search``, ``options``: as for
        :meth:`sparsmith.SparseLinear.from_linear`. Layers of one shape are tuned once in a process. Raises SparsmithError for a
        layer that is no plain ``nn.Linear``, and ValueError for features that are no multiples of 4."""
        if not isinstance(linear, nn.Linear) or not is_linear(linear):
            raise SparsmithError(f"{type(linear).__name__} is no plain nn.Linear")
        if linear.in_features % 4 or linear.out_features % 4:
            raise ValueError(f"{linear.out_features} x {linear.in_features} features do not divide into 4 x 4 tiles")
        layer = cls.__new__(cls)
        nn.Module.__init__(layer)
        layer.in_features, layer.out_features = linear.in_features, linear.out_features
        layer.weight, layer.bias = linear.weight, linear.bias
        layer._begin()
        layer.train(linear.training)
        layer.tuned = _tuned_for(linear, tuple(tokens), dtype, search, options)
        return layer

    def to_linear(self) -> nn.Linear:
        """A dense layer with the same parameters."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, device="meta")
        linear.weight, linear.bias = self.weight, self.bias
        return linear.train(self.training)

    @torch.no_grad()
    def hold_mask(self) -> None:
        """Prunes the weight now, and keeps the elements of this pattern in each forward, until the next call. A byte an
        element. Set ``mask`` to None to prune anew in each forward."""
        mask = torch.ones_like(self.weight, dtype=torch.bool)
        for row, pruned in prune.pruned_tiles(self.weight.detach()):
            mask[row:row + len(pruned)] = ~pruned
        self.mask = mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.enabled:
            return super().forward(x)
        autocast = torch.is_autocast_enabled(x.device.type)
        tuned, dtype = self.tuned, torch.get_autocast_dtype(x.device.type) if autocast else x.dtype
        if tuned is None or tuned.pruned is None or dtype != tuned.dtype or self.weight.dtype not in (dtype, torch.float32):
            return nn.functional.linear(x, _Pruned.apply(self.weight, self.mask), self.bias)
        bias = self.bias.to(dtype) if tuned.bias else None
        return ops.PrunedLinear.apply(x.to(dtype), self.weight, self.mask, bias, tuned.pruned.plan)[0]

    def _load_from_state_dict(self, state_dict, prefix, *arguments):
        mask = state_dict.pop(prefix + "mask", None)
        if mask is not None and mask.shape != self.weight.shape:
            raise SparsmithError(f"{prefix}mask is [{', '.join(map(str, mask.shape))}], and the weight is {[*self.weight.shape]}")
        self.mask = None  # the state says whether there is one
        super()._load_from_state_dict(state_dict, prefix, *arguments)
        if mask is not None:
            self.mask = mask.to(self.weight.device, torch.bool, copy=True)
            state_dict[prefix + "mask"] = mask

    def __setstate__(self, state):
        super().__setstate__(state)
        if self.tuned is None or self.tuned.pruned is None or ops.known(self.tuned.pruned.plan):
            return
        if os.path.exists(self.tuned.file):  # a new process does not know the plan
            load(self.tuned.file)
            _known(self.tuned)
        else:
            self.tuned = None

    def extra_repr(self) -> str:
        how = "dense" if not self.enabled else "2:4 in dense products" if self.tuned is None or self.tuned.pruned is None else "2:4"
        return f"{super().extra_repr()}, {how}"


class _Pruned(torch.autograd.Function):
    """The dense weight with zeros where it is pruned; gradients pass."""

    @staticmethod
    def forward(context, weight, mask):
        if mask is not None:
            return weight * mask
        made = weight.clone()
        for row, pruned in prune.pruned_tiles(weight):
            made[row:row + len(pruned)].masked_fill_(pruned, 0)
        return made

    @staticmethod
    def backward(context, grad):
        return grad, None


def _tuned_for(linear: nn.Linear, tokens: tuple[int, ...], dtype: torch.dtype | None, search: bool,
               options: dict) -> TunedWeight | None:
    """The kernels of a layer's shape; None: there are none."""
    weight = linear.weight
    dtype = dtype or (torch.bfloat16 if weight.dtype == torch.float32 else weight.dtype)
    if dtype not in (torch.float16, torch.bfloat16):
        return None
    device = weight.device.type if weight.device.type != "cuda" else str(weight.device)
    key = (tuple(weight.shape), dtype, linear.bias is not None, tokens, device, search, repr(sorted(options.items())))
    if key not in _tuned:
        # Any weight does: kernels of these packings take as long for each.
        generator = torch.Generator().manual_seed(0)
        patterns = prune.transposable_patterns().bool().view(-1, 4, 4)
        rows, cols = linear.out_features // 4, linear.in_features // 4
        kept = patterns[torch.randint(len(patterns), (rows, cols), generator=generator)]
        drawn = torch.randn(weight.shape, generator=generator) * kept.transpose(1, 2).reshape(weight.shape)
        example = nn.Linear(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        example.weight = nn.Parameter(drawn.to(weight.device, dtype))
        arguments = ["--operator", "spmm,spmm_transposed", "--families", "two_four_wgmma,two_four",
                     *(["--epilogue", "bias"] if linear.bias is not None else []), *options.get("arguments", ())]
        found = tune_layer(example, tokens=tokens, search=search, **{"memory": "4x", **options, "arguments": arguments})
        _tuned[key] = found and _known(found[0][found[1]])
    return _tuned[key]


def _known(tuned: TunedWeight) -> TunedWeight:
    """Tells the operators of the plan that prunes."""
    if tuned.pruned is not None:
        ops.know(tuned.pruned.plan, tuned.shape, tuned.shape[0], tuned.dtype, tuned.nnz, tuned.pruned.packed_bytes)
    return tuned


def swap_linear_with_semi_sparse_linear(model: nn.Module, *, tokens: Iterable[int], dtype: torch.dtype | None = None,
                                        filter_fn: Callable[[nn.Module, str], bool] | None = None, search: bool = False,
                                        **options) -> list[str]:
    """Replaces linear layers of a model by :class:`SemiSparseLinear`, with the same parameters, so that an optimizer stays
    as it is.

    ``tokens``: numbers of tokens of a batch. ``filter_fn(module, name)`` is true for layers to replace; by default all but
    those whose name contains "lm_head", and those with features that are no multiples of 4. ``dtype``, ``search``,
    ``options``: as for :meth:`SemiSparseLinear.from_linear`.

    Returns the first name of each layer. Raises SparsmithError if there are none, and what
    :meth:`SemiSparseLinear.from_linear` raises for a layer that ``filter_fn`` selects; the model is then unchanged.
    """
    tokens, made = tuple(tokens), {}
    for name, layer in linear_layers(model).items():
        fits = isinstance(layer, nn.Linear) and layer.in_features % 4 == 0 and layer.out_features % 4 == 0
        if name and (filter_fn(layer, name) if filter_fn else fits and "lm_head" not in name):
            made[layer] = SemiSparseLinear.from_linear(layer, tokens=tokens, dtype=dtype, search=search, **options)
    if not made:
        raise SparsmithError("no linear layer to replace: no layer inside of the model fits, or filter_fn is true for none")
    return _replace(model, made)


def _replace(model: nn.Module, by: dict[nn.Module, nn.Module]) -> list[str]:
    """Replaces modules under each of their names; the first name of each."""
    names = names_of(model)
    for module, replacement in by.items():
        for name in names[module]:
            replace_module(model, name, replacement)
    return [names[module][0] for module in by]


def swap_semi_sparse_linear_with_linear(model: nn.Module) -> list[str]:
    """Replaces :class:`SemiSparseLinear` by ``nn.Linear``, with the same parameters. Returns the first name of each layer."""
    return _replace(model, {module: module.to_linear() for name, module in model.named_modules()
                            if name and isinstance(module, SemiSparseLinear)})


class SparseThenDense:
    """Trains the :class:`SemiSparseLinear` layers of a model 2:4 for a share of the steps, and densely for the rest. For
    ViT-L the dense steps restore the accuracy of dense training (PyTorch blog, 2024, "Accelerating Neural Network Training
    with Semi-Structured (2:4) Sparsity").

    Call :meth:`step` after each step of the optimizer. Parameters and the optimizer's state stay what they are.

    ``steps``: of the whole training. ``sparse``: the share of 2:4 steps, from 0 to 1, often 0.4 to 0.7. ``refresh``: prune
    anew every so many steps, and keep the masks between; 1: in each forward. Raises ValueError for other numbers, and for a
    model without such layers.

    Example:
        >>> import torch
        >>> from sparsmith import SemiSparseLinear, SparseThenDense
        >>> model = torch.nn.Sequential(SemiSparseLinear(8, 8))
        >>> schedule = SparseThenDense(model, steps=10, sparse=0.7)
        >>> for _ in range(7):
        ...     schedule.step()
        >>> model[0].enabled
        False
    """

    def __init__(self, model: nn.Module, *, steps: int, sparse: float = 0.7, refresh: int = 1) -> None:
        if not 0 <= sparse <= 1 or steps < 1 or refresh < 1:
            raise ValueError(f"steps={steps}, sparse={sparse}, refresh={refresh}: steps and refresh are 1 or more, sparse is "
                             "between 0 and 1")
        self.layers = [module for module in model.modules() if isinstance(module, SemiSparseLinear)]
        if not self.layers:
            raise ValueError("the model has no SemiSparseLinear: call swap_linear_with_semi_sparse_linear first")
        self.sparse_steps, self.refresh, self.steps_done = round(sparse * steps), refresh, 0
        self._apply()

    def _apply(self) -> None:
        sparse = self.steps_done < self.sparse_steps
        for layer in self.layers:
            layer.enabled = sparse
            if not sparse or self.refresh == 1:
                layer.mask = None
            elif self.steps_done % self.refresh == 0:
                layer.hold_mask()

    def step(self) -> None:
        """Counts a step of training."""
        self.steps_done += 1
        self._apply()

    def state_dict(self) -> dict[str, int]:
        """The number of steps. Masks that layers hold are in the state of the model."""
        return {"steps_done": self.steps_done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on from a state. Load the model's first."""
        self.steps_done = state["steps_done"]
        for layer in self.layers:
            layer.enabled = self.steps_done < self.sparse_steps


__all__ = ["SemiSparseLinear", "SparseThenDense", "swap_linear_with_semi_sparse_linear", "swap_semi_sparse_linear_with_linear"]
