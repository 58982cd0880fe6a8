"""Layers that train, against dense layers with a mask."""

import copy
import doctest
import pickle
import shutil

import pytest
import torch
from conftest import TOLERANCE, Masked, adam, close, device_of, losses, sparse_linear
from torch import nn
from torch.utils.checkpoint import checkpoint

import sparsmith
from sparsmith import SparseLinear, TrainableSparseLinear, trainable_linear

ROWS, COLS, TOKENS = 96, 160, 24


@pytest.fixture(scope="session")
def tuned(tmp_path_factory):
    """A function that tunes a dense layer for training: (layer, tuned file, name). Tests do not change these."""
    made = {}

    def make(device="cpu", dtype=torch.float32, kernels=None, bias=True, fused=True):
        key = (device, dtype, kernels, bias, fused)
        if key not in made:
            layer = sparse_linear(ROWS, COLS, bias=bias, dtype=dtype, device=device, sparsity=0.9)
            path = tmp_path_factory.mktemp("trained") / "layer.tuned.safetensors"
            arguments = ["--candidates", "2"] + (["--epilogue", "bias"] if bias and fused else [])
            sparsmith.tune(nn.ModuleDict({"layer": layer}), path, tokens=(4, TOKENS), training=True, dtype=kernels, memory="8x",
                           device=device_of(device), progress=False, arguments=arguments)
            made[key] = (layer, sparsmith.load(path, training=True), "layer.weight")
        return made[key]

    return make


def trainable(made):
    layer, file, name = made
    sparse = TrainableSparseLinear(layer.weight, layer.bias, file.pattern(name))
    sparse.attach(file, name)
    assert sparse.tuned.trains and not sparse.tuned.dense
    return sparse


def step(layer, x, grad, scale=1.0):
    """y, and the gradients of x, of the elements of the weight, and of the bias."""
    x = x.detach().clone().requires_grad_()
    y = layer(x)
    (y * scale).backward(grad)
    weight = layer.values.grad if isinstance(layer, SparseLinear) else layer.weight.grad[layer.mask]
    found = [y.detach(), x.grad, weight] + ([] if layer.bias is None else [layer.bias.grad])
    layer.zero_grad()
    return found


# --- one step


@pytest.mark.parametrize(("dtype", "bias", "fused"), [(torch.float32, True, True), (torch.float16, True, True),
                                                      (torch.bfloat16, True, False), (torch.float32, False, False)])
def test_a_step_equals_a_masked_one(tuned, device, dtype, bias, fused):
    made = tuned(device, dtype, None, bias, fused)
    sparse, dense = trainable(made), Masked(made[0])
    for shape in [(3,), (TOKENS,), (2, 20), (1,), (0,)]:
        x = torch.randn(*shape, COLS, dtype=dtype, device=device)
        grad = torch.randn(*shape, ROWS, dtype=dtype, device=device) / 4
        for got, expected in zip(step(sparse, x, grad), step(dense, x, grad), strict=True):
            assert got.dtype == dtype and got.shape == expected.shape
            close(got, expected, dtype)


@pytest.mark.parametrize(("kernels", "fused"), [(torch.float16, False), (torch.bfloat16, True)])
def test_autocast(tuned, device, kernels, fused):
    made = tuned(device, torch.float32, kernels, True, fused)
    sparse, dense = trainable(made), Masked(made[0])
    x, grad = torch.randn(TOKENS, COLS, device=device), torch.randn(TOKENS, ROWS, device=device, dtype=kernels) / 4
    with torch.autocast(device, dtype=kernels):
        results = step(sparse, x, grad), step(dense, x, grad)
    assert [tensor.dtype for tensor in results[0]] == [kernels] + 3 * [torch.float32]
    for got, expected in zip(*results, strict=True):
        close(got, expected, kernels)
    with pytest.warns(UserWarning, match="computes densely, as x is torch.float32 and its kernels take .*autocast"):
        results = step(sparse, x, grad.float()), step(dense, x, grad.float())
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected)
    with pytest.raises(RuntimeError, match="x must be"):
        sparse(x.double())


def test_gradients_that_nobody_wants(tuned, device):
    made = tuned(device)
    for wanted in ("x", "values", "bias"):
        sparse = trainable(made)
        for name, parameter in sparse.named_parameters():
            parameter.requires_grad_(name == wanted)
        x = torch.randn(4, COLS, device=device, requires_grad=wanted == "x")
        sparse(x).sum().backward()
        assert {name for name, tensor in {**dict(sparse.named_parameters()), "x": x}.items()
                if tensor.grad is not None} == {wanted}


def test_any_memory_layout(tuned, device):
    made = tuned(device)
    sparse, dense = trainable(made), Masked(made[0])
    x = torch.randn(COLS, 8, device=device).t()
    for grad in (torch.ones(1, 1, device=device).expand(8, ROWS), torch.randn(ROWS, 8, device=device).t()):
        for got, expected in zip(step(sparse, x, grad), step(dense, x, grad), strict=True):
            close(got, expected, torch.float32)


def test_changes_of_any_origin_count(tuned, device):
    made = tuned(device)
    sparse = trainable(made)
    x = torch.randn(4, COLS, device=device)

    def agrees():
        with torch.no_grad():
            close(sparse(x), nn.functional.linear(x, sparse.to_dense(), sparse.bias), torch.float32)
        close(step(sparse, x, torch.ones(4, ROWS, device=device))[1], torch.ones(4, ROWS, device=device) @ sparse.to_dense(),
              torch.float32)

    agrees()
    sparse.values.data.mul_(-2)  # without a trace in its version
    agrees()
    with torch.no_grad():
        sparse.values.add_(1)
    agrees()
    sparse.values.data = torch.randn_like(sparse.values)
    agrees()
    y = sparse(x.requires_grad_())
    with torch.no_grad():
        sparse.values.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_zeros_stay_in_the_pattern(tuned, device):
    sparse = trainable(tuned(device))
    before = sparse.values.numel()
    with torch.no_grad():
        sparse.values.zero_()
        sparse.values[::2] = -0.0
    x = torch.randn(4, COLS, device=device)
    y, _, grad, _ = step(sparse, x, torch.ones(4, ROWS, device=device))
    close(y, sparse.bias.expand(4, -1), torch.float32)
    assert grad.count_nonzero() == before
    with torch.no_grad():
        sparse.values.fill_(1)
        close(sparse(x), nn.functional.linear(x, (made_mask(sparse)).float(), sparse.bias), torch.float32)


def made_mask(sparse):
    mask = torch.zeros(sparse.out_features * sparse.in_features, dtype=torch.bool, device=sparse.values.device)
    mask[sparse.positions().to(mask.device)] = True
    return mask.view(sparse.out_features, sparse.in_features)


def test_gradcheck(tuned):
    sparse = trainable(tuned("cpu"))
    assert sparse.double() is sparse and sparse.values.dtype == torch.float64
    small = TrainableSparseLinear(sparse.to_dense()[:5, :7], torch.randn(5, dtype=torch.float64))
    for layer in (sparse, small):
        x = torch.randn(2, layer.in_features, dtype=torch.float64, requires_grad=True)
        call = lambda x, values, bias, layer=layer: torch.func.functional_call(
            layer, {"values": values, "bias": bias}, (x,))
        assert torch.autograd.gradcheck(call, (x, layer.values, layer.bias), fast_mode=layer is sparse)
    assert torch.autograd.gradgradcheck(call, (x, small.values, small.bias))
    tuned_layer, x = trainable(tuned("cpu")), torch.randn(2, COLS, requires_grad=True)
    (grad,) = torch.autograd.grad(tuned_layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


def test_opcheck(tuned, device):
    sparse = trainable(tuned(device))
    ops, values = torch.ops.sparsmith, sparse.values.detach()
    x, dy = torch.randn(2, 3, COLS, device=device), torch.randn(2, 3, ROWS, device=device)
    torch.library.opcheck(ops.linear.default, (x, sparse.packed, sparse.bias.detach(), sparse.plan, None, values))
    torch.library.opcheck(ops.linear_transposed.default, (dy, sparse.packed, sparse.plan, values))
    torch.library.opcheck(ops.sampled.default, (x, dy, sparse.packed, sparse.plan))


def test_bad_operands_are_errors(tuned, device):
    made = tuned(device)
    sparse = trainable(made)
    linear = torch.ops.sparsmith.linear
    x, bias, values = torch.randn(2, COLS, device=device), sparse.bias.detach(), sparse.values.detach()
    for wrong, message in [(values[1:], r"values are \[\d+\], not \[\d+\]"), (values.double(), "values must be fp32"),
                           (values.repeat_interleave(2)[::2], "without gaps")]:
        with pytest.raises(RuntimeError, match=message):
            linear(x, sparse.packed, bias, sparse.plan, None, wrong)
    for x_, dy, message in [(x[:, 1:], x[:, :ROWS], "last dimension must be"), (x, x[:, :5], "dy is"),
                            (x, x[:1, :ROWS], "dy is"), (x, x[:, :ROWS].double(), "dy must be fp32")]:
        with pytest.raises(RuntimeError, match=message):
            torch.ops.sparsmith.sampled(x_, dy, sparse.packed, sparse.plan)
    constant = sparsmith.load(made[1].path)
    frozen = SparseLinear.from_tuned(constant, made[2], made[0].bias, device)
    with pytest.raises(RuntimeError, match="has no sddmm: tune for training"):
        torch.ops.sparsmith.sampled(x, x[:, :ROWS], frozen.packed, frozen.plan)
    assert frozen.packed.numel() < sparse.packed.numel()


# --- many steps


def batches(device, steps=6):
    return torch.randn(steps, TOKENS, COLS, device=device), torch.randn(steps, TOKENS, ROWS, device=device)


@pytest.mark.parametrize("kernels", [None, torch.bfloat16])
def test_a_run_equals_a_masked_one(tuned, device, kernels):
    made = tuned(device, torch.float32, kernels)
    sparse, dense = trainable(made), Masked(made[0])
    xs, ys = batches(device)
    a = losses(sparse, xs, ys, adam(sparse), autocast=kernels)
    b = losses(dense, xs, ys, adam(dense), autocast=kernels)
    tolerance = TOLERANCE[kernels or torch.float32]
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(sparse.values.detach(), dense.values, atol=4 * tolerance, rtol=4 * tolerance)
    assert (sparse.values.detach() - made[0].weight.detach()[made[0].weight != 0]).abs().max() > 0.05


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(tuned, device, reentrant):
    sparse = trainable(tuned(device))
    x, grad = torch.randn(4, COLS, device=device), torch.randn(4, ROWS, device=device)
    expected = step(sparse, x, grad)
    y = checkpoint(sparse, x.requires_grad_(), use_reentrant=reentrant)
    y.backward(grad)
    for got, other in zip((y, x.grad, sparse.values.grad, sparse.bias.grad), expected, strict=True):
        assert torch.equal(got, other)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(tuned, device, backend):
    if backend == "inductor" and device == "cpu" and not shutil.which("g++"):
        pytest.skip("inductor needs a C++ compiler for the CPU")
    made = tuned(device)
    sparse, other = trainable(made), trainable(made)
    torch._dynamo.reset()
    compiled = torch.compile(sparse, fullgraph=True, backend=backend)
    xs, ys = batches(device)
    # Compiled losses add up in another order.
    tolerance = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(losses(compiled, xs, ys, adam(sparse)), losses(other, xs, ys, adam(other)), **tolerance)
    torch.testing.assert_close(sparse.values, other.values)


@pytest.mark.gpu
def test_a_whole_step_in_a_graph(tuned, gpu):
    made = tuned(gpu)
    sparse, other = trainable(made), trainable(made)
    xs, ys = batches(gpu)
    x, y = xs[0].clone(), ys[0].clone()
    optimizer = torch.optim.SGD(sparse.parameters(), lr=0.1)

    def one():
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(sparse(x), y)
        loss.backward()
        optimizer.step()
        return loss

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        one()
    torch.cuda.current_stream().wait_stream(stream)
    sparse.load_state_dict(other.state_dict())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = one()
    got, expected = [], []
    reference = torch.optim.SGD(other.parameters(), lr=0.1)
    for i in range(6):
        x.copy_(xs[i])
        y.copy_(ys[i])
        graph.replay()
        got.append(loss.item())
        reference.zero_grad()
        wanted = nn.functional.mse_loss(other(xs[i]), ys[i])
        wanted.backward()
        reference.step()
        expected.append(wanted.item())
    torch.testing.assert_close(got, expected)
    assert len({round(value, 6) for value in got}) == 6


# --- state


def test_resume_bit_by_bit(tuned, device, tmp_path):
    made = tuned(device)
    sparse = trainable(made)
    optimizer, (xs, ys) = adam(sparse), batches(device, 8)
    losses(sparse, xs, ys, optimizer, 3)
    torch.save({"model": sparse.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    expected = losses(sparse, xs[3:], ys[3:], optimizer, 5)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert list(state["model"]) == ["values", "bias", "row_offsets", "column_indices"]
    fresh = trainable(made)
    again = adam(fresh)
    fresh.load_state_dict(state["model"])
    again.load_state_dict(state["optimizer"])
    assert losses(fresh, xs[3:], ys[3:], again, 5) == expected
    assert torch.equal(fresh.values, sparse.values) and torch.equal(fresh.bias, sparse.bias)


def test_states_of_other_layers(tuned, device):
    made = tuned(device)
    model = nn.Sequential(trainable(made))
    state = model.state_dict()
    dense = {"0.weight": made[0].weight.detach() * 3, "0.bias": made[0].bias.detach()}
    held = model[0].values
    model.load_state_dict(dense)
    assert model[0].values is held and torch.equal(model[0].to_dense(), dense["0.weight"])
    before = model[0].values.detach().clone()
    wrong = dense["0.weight"].clone()
    wrong.view(-1)[(wrong.view(-1) == 0).nonzero()[:7]] = 1
    for bad, message in [({**dense, "0.weight": wrong}, "0: 7 nonzeros of the weight are outside of the layer's pattern"),
                         ({**dense, "0.weight": wrong[1:]}, r"mismatch for 0.weight: it is \[95, 160\], and the layer's is \[96, 160\]"),
                         ({**state, "0.column_indices": state["0.column_indices"].flip(0)}, "0: the pattern of the state"),
                         ({key: value for key, value in state.items() if key != "0.row_offsets"}, "Missing key.*row_offsets"),
                         ({**state, "0.values": before[1:]}, "size mismatch for 0.values")]:
        with pytest.raises(RuntimeError, match=message):
            model.load_state_dict(bad)
        assert torch.equal(model[0].values, before)
    assert not model.load_state_dict({key: value for key, value in dense.items() if key != "0.weight"}, strict=False)[1]


def test_copies_and_pickles(tuned, device, monkeypatch):
    sparse = trainable(tuned(device))
    x, grad = torch.randn(4, COLS, device=device), torch.randn(4, ROWS, device=device)
    expected = step(sparse, x, grad)
    for other in (copy.deepcopy(sparse), pickle.loads(pickle.dumps(sparse))):
        assert other.values.data_ptr() != sparse.values.data_ptr() and other.tuned
        assert all(torch.equal(a, b) for a, b in zip(step(other, x, grad), expected, strict=True))
    pickled = pickle.dumps(sparse)
    monkeypatch.setattr(sparsmith.ops, "known", lambda plan: False)
    monkeypatch.setattr(trainable_linear.os.path, "exists", lambda path: False)
    other = pickle.loads(pickled)
    assert other.tuned is None
    for got, wanted in zip(step(other, x, grad), expected, strict=True):
        close(got, wanted, torch.float32)


def test_types(tuned, device):
    sparse = trainable(tuned(device, torch.float32, torch.bfloat16))
    assert sparse.dtype == torch.bfloat16 and sparse.weight.dtype == torch.float32
    x = torch.randn(4, COLS, device=device)
    sparse.to(torch.bfloat16)
    y = sparse(x.bfloat16())
    y.float().square().sum().backward()
    assert sparse.values.grad.dtype == torch.bfloat16 and y.dtype == torch.bfloat16
    sparse.half()
    with pytest.raises(RuntimeError, match="values must be fp32 or bf16"):
        sparse(x.bfloat16())


def test_from_tuned(tuned, device):
    layer, file, name = tuned(device)
    sparse = TrainableSparseLinear.from_tuned(file, name, layer.bias, device)
    x = torch.randn(4, COLS, device=device)
    assert torch.equal(sparse.to_dense(), layer.weight)
    close(sparse(x), layer(x), torch.float32)


def test_examples():
    result = doctest.testmod(trainable_linear)
    assert result.attempted > 3 and result.failed == 0
