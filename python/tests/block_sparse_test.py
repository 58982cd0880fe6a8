"""BlockSparseLinear and ModelPatcher."""

import copy
import doctest
import pickle
import re
import threading

import pytest
import torch
from conftest import TOLERANCE, close, pruned_
from torch import nn
from torch.nn.utils import prune as torch_prune

import sparsmith
from sparsmith import (
    BlockSparseLinear,
    BlockSparseModelPatcher,
    ModelPatcher,
    SparseLinear,
    SparsmithError,
    block_sparse,
)

TUNE = {"tokens": (1, 16), "memory": "8x", "candidates": 1}


@pytest.fixture(autouse=True)
def short_tuning(monkeypatch):
    """The search of the first forward, made short, and with memory enough for small layers to become sparse."""
    real = BlockSparseLinear._tune
    monkeypatch.setattr(BlockSparseLinear, "_tune", lambda layer, tokens, training, options: real(
        layer, tokens if training or options else TUNE["tokens"], training, {"memory": "8x", "candidates": 1, **options}))


def is_tuned(layer):
    return layer.layer.tuned is not None


def reference(layer):
    """The dense masked layer."""
    weight, bias = layer.to_dense().clone(), None if layer.bias is None else layer.bias.detach().clone()
    return lambda x: nn.functional.linear(x, weight, bias)


def norms(weight, rows, cols):
    return [[weight[r:r + rows, c:c + cols].double().norm().item() for c in range(0, weight.shape[1], cols)]
            for r in range(0, weight.shape[0], rows)]


# --- the pattern


@pytest.mark.parametrize(("density", "blocks"), [(1.0, 16), (0.5, 8), (0.25, 4), (0.3, 5), (0.01, 1)])
def test_random_pattern(density, blocks):
    layer = BlockSparseLinear(128, 64, density=density, block_shape=(16, 32))
    mask = layer.block_mask()
    assert mask.shape == (4, 4) and mask.sum() == blocks and layer.density == blocks / 16
    for r in range(4):
        for c in range(4):
            block = layer.to_dense()[r * 16:(r + 1) * 16, c * 32:(c + 1) * 32]
            assert (block != 0).all() if mask[r, c] else (block == 0).all()
    bound = 128 ** -0.5  # of nn.Linear
    kept = layer.to_dense()[layer.to_dense() != 0].abs()
    assert kept.max() <= bound and kept.max() > 0.9 * bound and layer.bias.abs().max() <= bound
    assert layer.layer.values.requires_grad and layer.bias.requires_grad


def test_random_patterns_differ():
    masks = [BlockSparseLinear(256, 256, density=0.5).block_mask() for _ in range(2)]
    assert not torch.equal(*masks)


def test_arguments():
    layer = BlockSparseLinear(64, 32)
    assert (layer.in_features, layer.out_features, layer.block_shape, layer.density) == (64, 32, (32, 32), 0.5)
    assert layer.bias.shape == (32,) and layer.weight.shape == (32, 64)
    assert BlockSparseLinear(64, 32, False).bias is None
    assert "in_features=64, out_features=32, block_shape=(32, 32)" in repr(layer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_largest_blocks_are_kept(dtype, bias):
    linear = nn.Linear(96, 64, bias=bias, dtype=dtype)
    before = copy.deepcopy(linear)
    layer = BlockSparseLinear(0, 0, torch_nn_linear=linear, density=0.25, block_shape=(16, 8))
    assert all(torch.equal(a, b) for a, b in zip(linear.parameters(), before.parameters(), strict=True))
    assert (layer.in_features, layer.out_features, layer.weight.dtype) == (96, 64, dtype)
    assert layer.bias is None if not bias else torch.equal(layer.bias, linear.bias)
    table, mask = norms(linear.weight.detach(), 16, 8), layer.block_mask()
    assert mask.sum() == 12
    flat = [(table[r][c], bool(mask[r, c])) for r in range(4) for c in range(12)]
    assert min(norm for norm, kept in flat if kept) >= max(norm for norm, kept in flat if not kept) * (1 - 1e-5)
    full = mask.repeat_interleave(16, 0).repeat_interleave(8, 1)
    assert torch.equal(layer.to_dense(), linear.weight * full)  # not scaled by 1 / sqrt(density)


def test_conversion_keeps_what_trains():
    linear = nn.Linear(64, 64)
    linear.bias.requires_grad_(False)
    assert not BlockSparseLinear(0, 0, torch_nn_linear=linear).bias.requires_grad
    torch_prune.custom_from_mask(linear, "weight", torch.arange(64)[:, None].expand(64, 64) < 32)
    layer = BlockSparseLinear(0, 0, torch_nn_linear=linear, density=1.0)
    assert layer.block_mask().tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize("density", [0, -0.5, 1.01, float("nan")])
def test_bad_densities(density):
    with pytest.raises(ValueError, match="density is"):
        BlockSparseLinear(64, 64, density=density)


@pytest.mark.parametrize(("sizes", "shape", "message"), [
    ((64, 65), (32, 32), r"\[65, 64\] does not divide into 32 x 32"),
    ((65, 64), (32, 32), r"\[64, 65\] does not divide into 32 x 32"),
    ((64, 64), (32, 48), "32 x 48"),
    ((16, 16), (32, 32), "does not divide"),
    ((0, 64), (32, 32), "does not divide"),
    ((64, 64), (32,), "block_shape is"),
    ((64, 64), (0, 32), "block_shape is"),
    ((64, 64), (32.0, 32), "block_shape is"),
])
def test_bad_shapes(sizes, shape, message):
    with pytest.raises(ValueError, match=message):
        BlockSparseLinear(*sizes, block_shape=shape)


# --- tuning at the first forward


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("bias", [True, False])
def test_forward(device, dtype, bias):
    layer = BlockSparseLinear(128, 96, bias, density=0.25).to(device, dtype)
    assert not is_tuned(layer)
    dense = reference(layer)
    for shape in [(128,), (3, 128), (2, 5, 128)]:
        x = torch.randn(shape, device=device, dtype=dtype)
        with torch.no_grad():
            close(layer(x), dense(x), dtype)
    assert layer._decided
    if device == "cpu":
        assert is_tuned(layer)
    assert layer.weight.shape == (96, 128) and layer.density == 0.25


def test_tunes_once(monkeypatch):
    calls = []
    monkeypatch.setattr(block_sparse, "tune_layer", lambda *a, real=block_sparse.tune_layer, **k: calls.append(k) or
                        real(*a, **k))
    layer = BlockSparseLinear(64, 64, density=0.25)
    for _ in range(3):
        layer(torch.randn(2, 64))
    assert len(calls) == 1
    full = BlockSparseLinear(64, 64, density=1.0)
    for _ in range(2):
        full(torch.randn(2, 64))
    assert len(calls) == 1 and full._decided  # there is nothing to tune
    assert calls[0]["training"] and calls[0]["tokens"] == (2,)
    layers = [BlockSparseLinear(64, 64, density=0.25)]
    threads = [threading.Thread(target=lambda: layers[0](torch.randn(2, 64))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2


def test_dense_without_a_compiler(no_compiler, dense_warning):
    layer = BlockSparseLinear(64, 64, density=0.25)
    layer.tune(device="cuda:0")
    assert not is_tuned(layer) and layer._decided


def test_dense_where_that_is_better(device):
    layer = BlockSparseLinear(64, 64, density=1.0).to(device)
    dense, x = reference(layer), torch.randn(3, 64, device=device)
    close(layer(x), dense(x), torch.float32)
    assert not is_tuned(layer) and layer._decided
    small = BlockSparseLinear(64, 64, density=0.5).to(device)
    dense = reference(small)
    small.tune(tokens=(1,), memory="1x", candidates=1)
    if device == "cpu":
        assert not is_tuned(small)  # its packing takes more than its dense bytes
    close(small(x), dense(x), torch.float32)


def test_tune(capsys):
    layer = BlockSparseLinear(64, 64, density=0.25, verbose=True)
    dense, x = reference(layer), torch.randn(3, 64)
    first = layer.layer.values
    with torch.no_grad():
        for tokens in ((4, 9), (1,)):
            layer.tune(tokens=tokens, memory="8x", candidates=1)
            assert [choice.tokens for choice in layer.layer.tuned.choices] == [*tokens] and layer.layer.values is first
            assert "SparseLinear(" in capsys.readouterr().out
            close(layer(x), dense(x), torch.float32)
        with pytest.raises(SparsmithError, match="failed"):
            layer.tune(memory="many")
        close(layer(x), dense(x), torch.float32)
    wide = BlockSparseLinear(64, 64).double()
    with pytest.raises(SparsmithError, match="float64"):
        wide.tune()
    torch.testing.assert_close(wide(x.double()), reference(wide)(x.double()))


def test_gradients(device):
    layer = BlockSparseLinear(64, 64, density=0.25).to(device)
    weight, bias = layer.to_dense().clone(), layer.bias
    x = torch.randn(3, 64, device=device, requires_grad=True)
    with torch.inference_mode():
        layer(x.detach())  # tuned here, and used with gradients later
    layer(x).square().sum().backward()
    got = x.grad, layer.bias.grad
    x.grad, other = None, bias.detach().clone().requires_grad_()
    weight.requires_grad_()
    nn.functional.linear(x, weight, other).square().sum().backward()
    torch.testing.assert_close(got, (x.grad, other.grad), atol=1e-4, rtol=1e-4)
    positions = layer.layer.positions().to(device)
    torch.testing.assert_close(layer.layer.values.grad, weight.grad.view(-1)[positions], atol=1e-4, rtol=1e-4)
    assert layer.bias is bias  # an optimizer that was made before holds the bias
    assert [name for name, _ in layer.named_parameters()][-1] == "layer.bias"


def test_types_after_the_first_forward():
    layer = BlockSparseLinear(64, 64, density=0.25)
    weight, x = layer.to_dense().clone(), torch.randn(3, 64)
    layer(x)
    assert is_tuned(layer) and is_tuned(layer.cpu())  # nothing changes
    layer.half()
    assert not is_tuned(layer) and torch.equal(layer.to_dense(), weight.half())
    close(layer(x.half()), reference(layer)(x.half()), torch.float16)
    assert is_tuned(layer) and layer.weight.dtype == torch.float16


@pytest.mark.gpu
def test_moves_after_the_first_forward(gpu):
    layer = BlockSparseLinear(256, 256, density=0.25)
    dense, x = reference(layer), torch.randn(3, 256)
    close(layer(x), dense(x), torch.float32)
    close(layer.to(gpu)(x.to(gpu)).cpu(), dense(x), torch.float32)
    close(layer.cpu()(x), dense(x), torch.float32)


def test_compile():
    layer = BlockSparseLinear(64, 64, density=0.25)
    dense, x = reference(layer), torch.randn(3, 64)
    torch._dynamo.reset()
    with torch.no_grad():
        close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), dense(x), torch.float32)
        assert not is_tuned(layer) and not layer._decided
        layer.tune(**TUNE)
        close(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), dense(x), torch.float32)
    assert is_tuned(layer)


# --- state, copies


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("from_tuned", [True, False])
@pytest.mark.parametrize("to_tuned", [True, False])
def test_state_dict(bias, from_tuned, to_tuned, tmp_path):
    saved, loaded = (nn.Sequential(BlockSparseLinear(64, 64, bias, density=density)) for density in (0.25, 0.5))
    while loaded[0].block_mask()[saved[0].block_mask()].all():  # else the blocks would stay
        loaded = nn.Sequential(BlockSparseLinear(64, 64, bias, density=0.5))
    for model, tuned in ((saved, from_tuned), (loaded, to_tuned)):
        if tuned:
            model(torch.randn(1, 64))
            assert is_tuned(model[0])
    dense, x = reference(saved[0]), torch.randn(3, 64)
    torch.save(saved.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert list(state) == (["0.weight", "0.bias"] if bias else ["0.weight"])
    assert torch.equal(state["0.weight"], saved[0].to_dense())
    held = loaded[0].bias
    loaded.load_state_dict(state)
    assert loaded[0].density == 0.25 and loaded[0].bias is held
    close(loaded(x), dense(x), torch.float32)
    plain = nn.Sequential(nn.Linear(64, 64, bias))
    plain.load_state_dict(state)
    close(plain(x), dense(x), torch.float32)
    with pytest.raises(RuntimeError, match=r"size mismatch|Missing key"):
        nn.Sequential(BlockSparseLinear(32, 64, bias)).load_state_dict(state)
    for wrong in ({**state, "0.other": torch.ones(1)}, {}):
        with pytest.raises(RuntimeError, match=r"Unexpected key|Missing key"):
            loaded.load_state_dict(wrong)


@pytest.mark.parametrize("tuned", [True, False])
def test_copies(tuned):
    layer = BlockSparseLinear(64, 64, density=0.25)
    dense, x = reference(layer), torch.randn(3, 64)
    if tuned:
        layer(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert is_tuned(other) == tuned and other.bias is not layer.bias
        assert other.layer.values.data_ptr() != layer.layer.values.data_ptr()
        close(other(x), dense(x), torch.float32)
        assert list(other.state_dict()) == ["weight", "bias"]
    assert is_tuned(layer) == tuned


def test_optimize_tunes_it():
    model = nn.Sequential(BlockSparseLinear(64, 64, density=0.25), BlockSparseLinear(64, 64, density=0.25))
    dense, x = copy.deepcopy(model), torch.randn(3, 64)
    report = sparsmith.optimize(model, tokens=(1, 16), memory="8x", progress=False, device="emulator",
                                arguments=["--candidates", "1"])
    assert [layer.name for layer in report.patched] == ["0.layer", "1.layer"]
    layer = model[0].layer
    assert type(layer) is SparseLinear
    close(model(x), dense(x), torch.float32)
    assert model[0].layer is layer and list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert torch.equal(model.state_dict()["0.weight"], dense[0].to_dense())


# --- ModelPatcher


def model_of(*sizes):
    return nn.Sequential(*(nn.Linear(*pair) for pair in sizes))


def bert():
    transformers = pytest.importorskip("transformers")
    return transformers.BertModel(transformers.BertConfig(vocab_size=64, hidden_size=64, intermediate_size=128,
                                                          num_hidden_layers=2, num_attention_heads=4)).eval()


def test_patchable_layers():
    assert BlockSparseModelPatcher is ModelPatcher
    model = bert()
    layers = ModelPatcher().get_patchable_layers(model)
    assert len(layers) == 13 and all(set(entry) == {"regexp", "name", "layer"} for entry in layers)
    for entry in layers:
        assert model.get_submodule(entry["name"]) is entry["layer"]
        matches = [other["name"] for other in layers if re.fullmatch(entry["regexp"], other["name"])]
        assert matches == [entry["name"]]


def test_patterns():
    model = bert()
    before = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    weights = {name: module.weight.detach().clone() for name, module in before.items()}
    patcher = ModelPatcher()
    patcher.add_pattern(r"encoder\.layer\.0\.output\.dense", {"density": 1.0})
    patcher.add_pattern(r"encoder\.layer\.[0-9]+\.(intermediate|output)\.dense", {"density": 0.25, "block_shape": (16, 32)})
    patched = patcher.patch_model(model)
    assert patched == [f"encoder.layer.{i}.{name}.dense" for i in (0, 1) for name in ("intermediate", "output")]
    densities = [model.get_submodule(name).density for name in patched]
    assert densities == [0.25, 1.0, 0.25, 0.25]  # the first pattern applies
    assert model.get_submodule(patched[0]).block_shape == (16, 32)
    assert model.get_submodule(patched[1]).block_shape == (32, 32)
    for name, module in before.items():
        now = model.get_submodule(name)
        assert type(now) is BlockSparseLinear and not now.training if name in patched else now is module
        assert torch.equal(module.weight, weights[name])
    reference_model = copy.deepcopy(model)
    for name in patched:
        now, linear = model.get_submodule(name), before[name]
        linear.weight.data.copy_(now.to_dense())
        parent, _, child = name.rpartition(".")
        setattr(reference_model.get_submodule(parent), child, linear)
    ids = torch.randint(0, 64, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(model(ids)[0], reference_model(ids)[0], atol=1e-4, rtol=1e-4)
    assert is_tuned(model.get_submodule(patched[0]))
    names = [entry["name"] for entry in patcher.get_patchable_layers(model)]
    assert set(names) == set(before) - set(patched)
    # Names match as a whole, and layers that are block-sparse are not patched again.
    for pattern in (r"encoder", r"layer\.1\.attention\.output\.dense", re.escape(patched[0])):
        again = ModelPatcher()
        again.add_pattern(pattern, {"density": 0.5})
        with pytest.raises(ValueError, match="matches no layer"):
            again.patch_model(model)


def unchanged_error(model, patcher, message):
    before = list(model.named_modules())
    with pytest.raises(ValueError, match=message):
        patcher.patch_model(model)
    assert all(a[1] is b[1] for a, b in zip(before, model.named_modules(), strict=True))


def test_errors_leave_the_model():
    patcher = ModelPatcher()
    patcher.add_pattern("0", {"density": 0.5})
    patcher.add_pattern("missing", {"density": 0.5})
    unchanged_error(model_of((64, 64), (64, 64)), patcher, "'missing' matches no layer: names are 0, 1")
    patcher = ModelPatcher()
    patcher.add_pattern(".*", {"density": 0.5})
    unchanged_error(model_of((64, 64), (64, 10)), patcher, r"layer '1': the weight \[10, 64\] does not divide")
    unchanged_error(nn.Sequential(nn.ReLU()), patcher, "names are none")
    unchanged_error(nn.Linear(64, 64), patcher, "matches no layer")
    patcher = ModelPatcher()
    patcher.add_pattern("0", {"density": 0.5})
    patcher.add_pattern("1", {"density": 2.0})
    unchanged_error(model_of((64, 64), (64, 64)), patcher, "layer '1': density is 2.0")
    for info in ({}, {"block_shape": (32, 32)}, {"density": 0.5, "pseudo_linear": True}):
        with pytest.raises(ValueError, match="patch_info has the keys"):
            patcher.add_pattern("0", info)
    with pytest.raises(re.error):
        patcher.add_pattern("[", {"density": 0.5})
    assert len(patcher.patterns) == 2
    assert ModelPatcher().patch_model(model_of((64, 64))) == []


def test_shared_layers_and_weights():
    layer = nn.Linear(64, 64)
    model = nn.ModuleDict({"a": layer, "b": layer, "embedding": nn.Embedding(64, 64), "head": nn.Linear(64, 64)}).train()
    model["head"].weight = model["embedding"].weight
    patcher = ModelPatcher()
    patcher.add_pattern(".*", {"density": 0.5})
    assert [entry["name"] for entry in patcher.get_patchable_layers(model)] == ["a"]
    assert patcher.patch_model(model) == ["a"]
    assert type(model["a"]) is BlockSparseLinear and model["b"] is model["a"] and model["a"].training
    assert model["head"].weight is model["embedding"].weight


def test_conv1d():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=4, n_embd=64, vocab_size=64, n_positions=16)
    dense = transformers.GPT2LMHeadModel(config).eval()
    for name, module in dense.named_modules():
        if type(module).__name__ == "Conv1D":
            nn.init.normal_(module.bias)
            sparsmith.prune.magnitude_(module, 0.75, pattern=(32, 16))
    model = copy.deepcopy(dense)
    patcher = ModelPatcher()
    patcher.add_pattern(r"transformer\.h\..*", {"density": 0.25, "block_shape": (32, 16)})
    assert len(patcher.patch_model(model)) == 4
    block = model.transformer.h[0]
    assert (block.mlp.c_fc.in_features, block.mlp.c_fc.out_features, block.attn.c_attn.density) == (64, 256, 0.25)
    ids = torch.randint(0, 64, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, dense(ids).logits, atol=1e-4, rtol=1e-4)


def test_pruning_a_block_sparse_layer():
    layer = BlockSparseLinear(64, 64, density=0.5)
    pruned_(layer.layer.values, 0.5)
    dense, x = reference(layer), torch.randn(2, 64)
    torch.testing.assert_close(layer(x), dense(x), atol=TOLERANCE[torch.float32], rtol=1e-5)


def test_examples():
    result = doctest.testmod(block_sparse)
    assert result.attempted > 5 and result.failed == 0
