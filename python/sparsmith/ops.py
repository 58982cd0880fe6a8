"""The operators of sparsmith in PyTorch.

``torch.ops.sparsmith.linear(x, packed, bias, plan, residual=None, values=None)`` computes
``activation(x @ W.T + bias) + residual`` with the kernels of a tuned weight. ``x``: [..., in_features], ``packed``:
the packed bytes of the weight (uint8), ``bias``: [out_features] or None, ``residual``: [..., out_features] or None,
``plan``: :attr:`sparsmith.TunedWeight.plan`. A gated weight gives [..., out_features / 2]: the activations of the first
half of the outputs, times the second half. ``linear_out`` writes into its last argument. Bias, activation and residual
are parts of the kernels: give what the weight was tuned with. Kernels may read ``packed`` before earlier kernels of the
stream have ended (programmatic dependent launch): write it by copies alone, as modules do. On a GPU a call enqueues
kernels on the current stream; a CUDA graph may capture it. On the CPU a slow, exact version runs.

``torch.ops.sparsmith.to_dense(packed, plan)`` is the dense weight of a plan for constant values, on the CPU.

Plans of a file that is loaded for training take ``values``, [nnz] in the order of rows and columns, float32 or of the
weight's type: the weight has these values, and ``packed`` has none. On a GPU they are written into the packing that the
call reads, in ``packed`` or in memory of the call, on the current stream, in front of the product: also in a captured
graph, and without a change that PyTorch sees. So ``packed`` is scratch memory of such a layer. ``linear_transposed(dy, packed, plan, values=None)`` is ``dy @ W``, the
gradient of x. ``sampled(x, dy, packed, plan)`` is the gradient of the values: ``dy.T @ x`` at the pattern of W, of x's type.

``prune_two_four(weight, plan)`` makes the packed bytes of a dense ``weight``, [out_features, in_features], float32 or of the
kernels' type, pruned 2:4 along rows and columns, for ``plan`` of :class:`sparsmith.PrunedPlan`. On a GPU one kernel does so;
``linear`` and ``linear_transposed`` then take the packed bytes and this plan.
"""

import torch

from sparsmith import _library  # noqa: F401  registers the operators

# Of each plan: rows and columns of the weight, and the last dimension of y, for shapes without a run.
_shapes: dict[int, tuple[int, int]] = {}
_outputs: dict[int, int] = {}
_dtypes: dict[int, torch.dtype] = {}
_nonzeros: dict[int, int] = {}
_packed_bytes: dict[int, int] = {}

linear = torch.ops.sparsmith.linear.default
linear_out = torch.ops.sparsmith.linear_out.default
linear_transposed = torch.ops.sparsmith.linear_transposed.default
sampled = torch.ops.sparsmith.sampled.default
prune_two_four = torch.ops.sparsmith.prune_two_four.default
to_dense = torch.ops.sparsmith.to_dense.default


def know(plan: int, shape: tuple[int, int], out_features: int, dtype: torch.dtype, nnz: int, packed_bytes: int) -> None:
    """Tells the shape functions of the operators about a plan."""
    _shapes[plan] = shape
    _outputs[plan] = out_features
    _dtypes[plan] = dtype
    _nonzeros[plan] = nnz
    _packed_bytes[plan] = packed_bytes


def known(plan: int) -> bool:
    """Whether this process has seen the plan; plans stay."""
    return plan in _shapes


def _shape(plan: int) -> tuple[int, int]:
    if plan not in _shapes:
        raise RuntimeError(f"sparsmith: the plan {plan} is not known: call sparsmith.load() on its tuned file first")
    return _shapes[plan]


@torch.library.register_fake("sparsmith::linear")
def _(x, packed, bias, plan, residual=None, values=None):
    _, cols = _shape(plan)
    torch._check(x.shape[-1] == cols, lambda: f"sparsmith: the last dimension of x is {x.shape[-1]}, not {cols}")
    return x.new_empty((*x.shape[:-1], _outputs[plan]))


@torch.library.register_fake("sparsmith::linear_out")
def _(x, packed, bias, plan, residual, out):
    _shape(plan)


@torch.library.register_fake("sparsmith::linear_transposed")
def _(dy, packed, plan, values=None):
    rows, cols = _shape(plan)
    torch._check(dy.shape[-1] == rows, lambda: f"sparsmith: the last dimension of dy is {dy.shape[-1]}, not {rows}")
    return dy.new_empty((*dy.shape[:-1], cols))


@torch.library.register_fake("sparsmith::sampled")
def _(x, dy, packed, plan):
    _shape(plan)
    return x.new_empty(_nonzeros[plan])


@torch.library.register_fake("sparsmith::prune_two_four")
def _(weight, plan):
    torch._check(weight.shape == _shape(plan), lambda: f"sparsmith: the weight is {[*weight.shape]}, not {[*_shape(plan)]}")
    return weight.new_empty(_packed_bytes[plan], dtype=torch.uint8)


@torch.library.register_fake("sparsmith::to_dense")
def _(packed, plan):
    return packed.new_empty(_shape(plan), dtype=_dtypes[plan])


def dense_weight(packed: torch.Tensor, plan: int, bias: bool, whole: bool) -> torch.Tensor:
    """The dense weight on the device of ``packed``. ``bias``: the kernels add a bias. ``whole``: they compute nothing
    besides product and bias, so that the product with the identity is the weight."""
    if packed.is_cuda and whole:
        rows, cols = _shape(plan)
        zeros = torch.zeros(rows, dtype=_dtypes[plan], device=packed.device) if bias else None
        return linear(torch.eye(cols, dtype=_dtypes[plan], device=packed.device), packed, zeros, plan).t()
    return to_dense(packed.cpu(), plan).to(packed.device)


class Linear(torch.autograd.Function):
    """``linear`` with gradients of x and bias. The weight is constant."""

    @staticmethod
    def forward(x, packed, bias, plan):
        return linear(x, packed, bias, plan)

    @staticmethod
    def setup_context(context, inputs, output):
        _, packed, bias, context.plan = inputs
        context.save_for_backward(packed)
        context.has_bias = bias is not None

    @staticmethod
    def backward(context, grad):
        (packed,) = context.saved_tensors
        needs_x, _, needs_bias, _ = context.needs_input_grad
        grad_x = grad @ dense_weight(packed, context.plan, context.has_bias, True) if needs_x else None
        grad_bias = grad.reshape(-1, grad.shape[-1]).sum(0) if context.has_bias and needs_bias else None
        return grad_x, None, grad_bias, None


class TrainedLinear(torch.autograd.Function):
    """``linear`` with gradients of x, values and bias, and of all elements of the weight if there are ``zeros``, which stand
    for the dense weight."""

    @staticmethod
    def forward(x, values, packed, bias, plan, zeros):
        return linear(x, packed, bias, plan, None, values)

    @staticmethod
    def setup_context(context, inputs, output):
        x, values, packed, bias, context.plan, zeros = inputs
        needs_x, needs_values, _, needs_bias, _, context.needs_dense = context.needs_input_grad
        context.save_for_backward(x if needs_values or zeros is not None else None, values if needs_x else None, packed)
        context.has_bias = bias is not None and needs_bias
        context.values_type = values.dtype

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, grad):
        x, values, packed = context.saved_tensors
        grad_x = None if values is None else linear_transposed(grad, packed, context.plan, values)
        grad_values = None if x is None else sampled(x, grad, packed, context.plan).to(context.values_type)
        grad_bias = grad.reshape(-1, grad.shape[-1]).sum(0) if context.has_bias else None
        dense = _dense_gradient(grad, x).to(context.values_type) if context.needs_dense else None
        return grad_x, grad_values, None, grad_bias, None, dense


def _dense_gradient(grad, x):
    return grad.reshape(-1, grad.shape[-1]).t() @ x.reshape(-1, x.shape[-1])


class PrunedLinear(torch.autograd.Function):
    """``linear`` with a dense weight that is pruned first. Gradients of x, weight and bias: that of the weight is of all its
    elements, as if none were pruned (the straight-through estimator)."""

    @staticmethod
    def forward(x, weight, mask, bias, plan):
        packed = prune_two_four(weight if mask is None else weight * mask, plan)
        return linear(x, packed, bias, plan), packed

    @staticmethod
    def setup_context(context, inputs, output):
        x, weight, _, bias, context.plan = inputs
        needs_x, needs_weight, _, needs_bias, _ = context.needs_input_grad
        context.mark_non_differentiable(output[1])
        context.set_materialize_grads(False)  # of the packed bytes
        context.save_for_backward(x if needs_weight else None, output[1] if needs_x else None)
        context.has_bias = bias is not None and needs_bias
        context.weight_type = weight.dtype

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context, grad, _):
        x, packed = context.saved_tensors
        grad = grad.contiguous()
        grad_x = None if packed is None else linear_transposed(grad, packed, context.plan)
        grad_weight = None if x is None else _dense_gradient(grad, x).to(context.weight_type)
        return grad_x, grad_weight, None, grad.view(-1, grad.shape[-1]).sum(0) if context.has_bias else None, None
