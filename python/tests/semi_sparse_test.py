"""Layers that prune their weight 2:4 in each forward."""

import copy
import pickle

import pytest
import torch
from conftest import TOLERANCE
from torch import nn

import sparsmith
from sparsmith import SemiSparseLinear, SparseThenDense, ops

SIZE, TOKENS = 512, 8  # for which 2:4 is predicted to be faster


def made(device, dtype=torch.bfloat16, kernels=None, bias=True):
    linear = nn.Linear(SIZE, SIZE, bias=bias).to(device, dtype)
    layer = SemiSparseLinear.from_linear(linear, tokens=(TOKENS,), dtype=kernels)
    assert layer.weight is linear.weight and layer.tuned.pruned is not None
    return layer


def pruned_weight(layer, dtype):
    """What the kernels multiply by."""
    packed = ops.prune_two_four(layer.weight.detach(), layer.tuned.pruned.plan)
    bias = torch.zeros(SIZE, dtype=dtype, device=packed.device) if layer.tuned.bias else None
    return ops.linear(torch.eye(SIZE, dtype=dtype, device=packed.device), packed, bias, layer.tuned.pruned.plan).t()


def tiles(weight):
    return weight.unflatten(0, (-1, 4)).unflatten(2, (-1, 4)).transpose(1, 2).flatten(0, 1)


def step(layer, x, grad):
    x = x.detach().clone().requires_grad_()
    y = layer(x)
    y.backward(grad)
    found = y.detach(), x.grad, layer.weight.grad, None if layer.bias is None else layer.bias.grad
    layer.zero_grad()
    return found


def near(actual, expected, dtype):
    error = (actual.double() - expected.double()).norm() / expected.double().norm()
    assert error < TOLERANCE[dtype] / 8, error


@pytest.mark.parametrize(("dtype", "bias"), [(torch.bfloat16, True), (torch.float16, False)])
def test_step(device, dtype, bias):
    layer = made(device, dtype, bias=bias)
    weight = pruned_weight(layer, dtype)
    kept = weight != 0
    assert torch.equal(weight[kept], layer.weight.detach()[kept])
    best = nn.Linear(SIZE, SIZE, device=device, dtype=dtype)
    best.weight.data.copy_(layer.weight.detach())
    sparsmith.prune.magnitude_(best, 0.5, pattern="2:4-transposable")
    assert (tiles(kept).sum(1) <= 2).all() and (tiles(kept).sum(2) <= 2).all()
    sums = [tiles(each.detach().double().abs()).sum((1, 2)) for each in (weight, best.weight)]
    assert torch.equal(*sums)  # patterns of equal sums may differ
    x, grad = (torch.randn(3, TOKENS, SIZE, device=device, dtype=dtype) for _ in range(2))
    y, by_x, by_weight, by_bias = step(layer, x, grad)
    exact = weight.double()
    near(y, x.double() @ exact.T + (layer.bias.double() if bias else 0), dtype)
    near(by_x, grad.double() @ exact, dtype)
    near(by_weight, grad.flatten(0, 1).double().T @ x.flatten(0, 1).double(), dtype)
    if bias:
        near(by_bias, grad.double().sum((0, 1)), dtype)
    again = step(layer, x, grad)
    assert all(a is b is None or torch.equal(a, b) for a, b in zip((y, by_x, by_weight, by_bias), again, strict=True))


def test_the_backward_takes_the_weight_of_its_forward(device):
    """Also if another weight was pruned between."""
    layer = made(device)
    x = torch.randn(TOKENS, SIZE, device=device, dtype=torch.bfloat16, requires_grad=True)
    grad = torch.randn_like(x)
    expected = step(layer, x, grad)[1]
    y = layer(x)
    other = {"weight": torch.randn_like(layer.weight), "bias": layer.bias.detach()}
    torch.func.functional_call(layer, other, (x.detach(),))
    y.backward(grad)
    assert torch.equal(x.grad, expected)


def test_autocast(device):
    layer = made(device, torch.float32, torch.bfloat16)
    x = torch.randn(TOKENS, SIZE, device=device)
    grad = torch.randn(TOKENS, SIZE, device=device, dtype=torch.bfloat16)
    with torch.autocast(device, torch.bfloat16):
        y, by_x, by_weight, by_bias = step(layer, x, grad)
    assert (y.dtype, by_x.dtype, by_weight.dtype, by_bias.dtype) == (torch.bfloat16, *[torch.float32] * 3)
    weight = pruned_weight(layer, torch.bfloat16)
    near(y, x.bfloat16().double() @ weight.double().T + layer.bias.double(), torch.bfloat16)
    near(by_x, grad.double() @ weight.double(), torch.bfloat16)
    plain = step(layer, x, grad.float())  # without autocast: float32, in dense products
    assert plain[0].dtype == torch.float32
    near(y, plain[0], torch.bfloat16)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(device, backend):
    layer = made(device)
    x, grad = (torch.randn(TOKENS, SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
    expected = step(layer, x, grad)
    torch._dynamo.reset()
    found = step(torch.compile(layer, backend=backend, fullgraph=True), x, grad)
    for one, other in zip(found, expected, strict=True):
        near(one, other, torch.bfloat16)


@pytest.mark.gpu
def test_a_graph_prunes_anew(gpu):
    layer = made(gpu)
    x = torch.randn(TOKENS, SIZE, device=gpu, dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream), torch.no_grad():
        layer(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        y = layer(x)
    for _ in range(3):
        with torch.no_grad():
            layer.weight.normal_()
            expected = layer(x)
        graph.replay()
        assert torch.equal(y, expected)


def test_a_held_mask_stays(device):
    layer = made(device)
    layer.hold_mask()
    mask = layer.mask.clone()
    assert (tiles(mask).sum(1) == 2).all() and (tiles(mask).sum(2) == 2).all()
    x, grad = (torch.randn(TOKENS, SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
    with torch.no_grad():
        layer.weight.normal_()
    y, _, by_weight, _ = step(layer, x, grad)
    near(y, x.double() @ (layer.weight * mask).double().T + layer.bias.double(), torch.bfloat16)
    near(by_weight, grad.double().T @ x.double(), torch.bfloat16)  # of pruned elements, too
    other = made(device)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other.mask, mask) and torch.equal(step(other, x, grad)[0], y)
    layer.mask = None
    other.load_state_dict(layer.state_dict())
    assert other.mask is None
    plain = nn.Linear(SIZE, SIZE, device=device, dtype=torch.bfloat16)
    plain.load_state_dict(layer.state_dict())
    bad = {**layer.state_dict(), "mask": mask[:4]}
    with pytest.raises(sparsmith.SparsmithError, match="mask is"):
        layer.load_state_dict(bad)


def test_a_pickled_layer(device):
    layer = made(device)
    x = torch.randn(TOKENS, SIZE, device=device, dtype=torch.bfloat16)
    expected = layer(x)
    plan, kept = layer.tuned.pruned.plan, pickle.dumps(layer)
    for forget in (False, True):
        if forget:
            del ops._shapes[plan]  # as in a new process
        assert torch.equal(pickle.loads(kept)(x), expected)
    del ops._shapes[plan]
    alone = pickle.loads(kept.replace(layer.tuned.file.encode(), b"x" * len(layer.tuned.file)))
    assert alone.tuned is None
    assert alone(x).isfinite().all()
    ops.know(plan, (SIZE, SIZE), SIZE, torch.bfloat16, layer.tuned.nnz, layer.tuned.pruned.packed_bytes)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.odd, self.lm_head = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.lm_head(self.odd(self.first(x).relu()))


def swapped(seed=0):
    torch.manual_seed(seed)
    model = Model()
    assert sparsmith.swap_linear_with_semi_sparse_linear(model, tokens=(TOKENS,)) == ["first"]
    return model


def trained(model, optimizer, schedule, begin, end):
    found = []
    for at in range(begin, end):
        x = torch.randn(TOKENS, SIZE, generator=torch.Generator().manual_seed(at))
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        found.append(loss.item())
    return found


def test_a_layer_with_two_names():
    model = nn.ModuleDict({"one": nn.Linear(8, 8)})
    model["two"] = model["one"]
    assert sparsmith.swap_linear_with_semi_sparse_linear(model, tokens=iter([4])) == ["one"]
    assert isinstance(model["one"], SemiSparseLinear) and model["two"] is model["one"]
    sparsmith.swap_semi_sparse_linear_with_linear(model)
    assert type(model["one"]) is nn.Linear and model["two"] is model["one"]


@pytest.mark.parametrize("refresh", [1, 3])
def test_sparse_then_dense(refresh):
    """The optimizer's state stays; a run that is saved in its middle goes on with equal bits."""
    model = swapped()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = SparseThenDense(model, steps=10, sparse=0.7, refresh=refresh)
    losses = trained(model, optimizer, schedule, 0, 5)
    state = copy.deepcopy([each.state_dict() for each in (model, optimizer, schedule)])
    assert model.first.enabled and (model.first.mask is None) == (refresh == 1)
    losses += trained(model, optimizer, schedule, 5, 10)
    assert not model.first.enabled and model.first.mask is None
    assert optimizer.state[model.first.weight]["step"] == 10
    assert losses[-1] < losses[0]

    resumed = swapped(1)
    optimizer = torch.optim.AdamW(resumed.parameters(), lr=1e-3)
    schedule = SparseThenDense(resumed, steps=10, sparse=0.7, refresh=refresh)
    for each, saved in zip((resumed, optimizer, schedule), state, strict=True):
        each.load_state_dict(saved)
    assert trained(resumed, optimizer, schedule, 5, 10) == losses[5:]

    assert sparsmith.swap_semi_sparse_linear_with_linear(model) == ["first"]
    assert type(model.first) is nn.Linear and any(model.first.weight is each for each in model.parameters())


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="4 x 4 tiles"):
        SemiSparseLinear.from_linear(nn.Linear(8, 6), tokens=(1,))
    with pytest.raises(sparsmith.SparsmithError, match="no plain nn.Linear"):
        SemiSparseLinear.from_linear(nn.Conv2d(4, 4, 1), tokens=(1,))
    with pytest.raises(sparsmith.SparsmithError, match="no linear layer"):
        sparsmith.swap_linear_with_semi_sparse_linear(nn.Sequential(nn.Linear(6, 6)), tokens=(1,))
    model = Model()
    with pytest.raises(ValueError, match="4 x 4 tiles"):
        sparsmith.swap_linear_with_semi_sparse_linear(model, tokens=(TOKENS,), filter_fn=lambda _module, _name: True)
    assert type(model.first) is nn.Linear  # although it fits
    with pytest.raises(ValueError, match="no SemiSparseLinear"):
        SparseThenDense(Model(), steps=4)
    for wrong in ({"sparse": 1.5}, {"steps": 0}, {"refresh": 0}):
        with pytest.raises(ValueError, match="between 0 and 1"):
            SparseThenDense(Model(), **{"steps": 4, **wrong})
    layer = made("cpu")
    plan = layer.tuned.pruned.plan
    for weight, reason in ((torch.zeros(SIZE, 4, dtype=torch.bfloat16), "the dense weight is"),
                           (torch.zeros(SIZE, SIZE, dtype=torch.float64), "must be fp32 or bf16")):
        with pytest.raises(RuntimeError, match=reason):
            ops.prune_two_four(weight, plan)
    with pytest.raises(RuntimeError, match="does not prune"):
        ops.prune_two_four(layer.weight.detach(), layer.tuned.plan)
    strided = torch.randn(SIZE, 2 * SIZE, dtype=torch.bfloat16)[:, 1::2]
    assert torch.equal(ops.prune_two_four(strided, plan), ops.prune_two_four(strided.contiguous(), plan))


def test_shapes_for_which_dense_is_faster():
    layer = SemiSparseLinear.from_linear(nn.Linear(8, 8, dtype=torch.bfloat16), tokens=(4096,))
    assert layer.tuned.pruned is None and "dense products" in repr(layer)
    weight = layer(torch.eye(8, dtype=torch.bfloat16)) - layer.bias
    assert (tiles(weight != 0).sum(1) <= 2).all()
