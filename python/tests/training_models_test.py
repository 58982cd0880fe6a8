"""Models and block-sparse layers that train."""

import copy
import subprocess
import sys

import pytest
import torch
from conftest import Masked, adam, close, device_of, losses, names, sparse_linear
from torch import nn

import sparsmith
from sparsmith import BlockSparseLinear, ModelPatcher, SparseLinear, SparsmithError, TrainableSparseLinear

TOKENS = 24


def test_from_linear(device):
    for dtype, kernels in ((torch.float32, None), (torch.float32, torch.bfloat16), (torch.float16, None)):
        linear = sparse_linear(128, 256, dtype=dtype, device=device, sparsity=0.9)
        sparse = SparseLinear.from_linear(linear, tokens=(TOKENS,), training=True, dtype=kernels, memory="8x")
        assert type(sparse) is TrainableSparseLinear and sparse.dtype == (kernels or dtype) and sparse.tuned.trains
        assert torch.equal(sparse.to_dense(), linear.weight) and sparse.bias is not linear.bias
        assert "training_bytes=" in repr(sparse) and f"{TOKENS}: " in repr(sparse)
    with pytest.raises(SparsmithError, match="float32, float16 or bfloat16, not torch.float64"):
        SparseLinear.from_linear(linear, training=True, dtype=torch.float64)
    linear.weight.requires_grad_(False)
    assert not SparseLinear.from_linear(linear, tokens=(TOKENS,), training=True, memory="8x").values.requires_grad


def mlp(sparsity=0.9, sizes=(64, 96, 64)):
    model = nn.Sequential(nn.Linear(*sizes[:2]), nn.ReLU(), nn.Linear(*sizes[1:]))
    sparsmith.prune.magnitude_(model, sparsity)
    return model


def optimized(model, device="cpu", **options):
    return sparsmith.optimize(model, tokens=(TOKENS,), training=True, memory="8x", progress=False, device=device_of(device),
                              arguments=["--candidates", "1"], **options)


def test_optimize(device, tmp_path):
    model = mlp().to(device)
    dense = copy.deepcopy(model)
    report = optimized(model, device, output=tmp_path / "model.tuned.safetensors")
    assert [layer.name for layer in report.patched] == ["0", "2"] and report.training
    assert "in training with Adam" in str(report)
    assert report.bytes == sum(model[i].packed.numel() + 16 * model[i].values.numel() for i in (0, 2))
    assert report.dense_bytes == 17 * (64 * 96 + 96 * 64)
    if report.step_us(TOKENS):
        assert f"{TOKENS} tokens: the products of a training step take" in str(report)
    x = torch.randn(3, 64, device=device)
    close(model(x), dense(x), torch.float32)
    assert {name for name, _ in model.named_parameters()} == {"0.values", "0.bias", "2.values", "2.bias"}
    assert {"0.packed", "2.packed"} <= set(model._ddp_params_and_buffers_to_ignore)
    optimizer = adam(model)
    model(x).square().sum().backward()
    optimizer.step()
    # Another number of tokens: the parameters stay.
    held = [*model.parameters()]
    sparsmith.patch_model(model, tmp_path / "model.tuned.safetensors", training=True)
    assert all(a is b for a, b in zip(held, model.parameters(), strict=True))
    trained = copy.deepcopy(model)
    # For inference: constant weights.
    final = sparsmith.optimize(model, tokens=(1,), memory="8x", progress=False, device=device_of(device))
    assert len(final.patched) == 2 and type(model[0]) is SparseLinear
    with torch.no_grad():
        close(model(x), trained(x), torch.float32)
    assert sparsmith.unpatch_model(trained) == 2
    assert type(trained[0]) is nn.Linear and trained[0].weight.requires_grad
    close(trained(x), model(x), torch.float32)
    for patch in (lambda: optimized(model, device),
                  lambda: sparsmith.patch_model(model, tmp_path / "model.tuned.safetensors", training=True)):
        with pytest.raises(SparsmithError, match="0 is a SparseLinear, whose weight is constant: unpatch_model"):
            patch()
    with pytest.raises(ValueError, match="fuse=False"):
        optimized(mlp(), fuse=True)


def test_patterns_stay_where_products_stay_dense(device):
    model = mlp(0.6).to(device)
    dense = copy.deepcopy(model)
    report = sparsmith.optimize(model, tokens=(TOKENS,), training=True, progress=False, device=device_of(device),
                                arguments=["--families", "dense"])
    assert names(report) == ["0", "2"] and model[0].tuned.dense and model[2].tuned.dense
    assert report.bytes < report.dense_bytes and f"{TOKENS}: dense/dense/dense" in str(report)
    x, optimizer = torch.randn(TOKENS, 64, device=device), adam(model)
    close(model(x), dense(x), torch.float32)
    model(x).square().sum().backward()
    optimizer.step()
    for i in (0, 2):
        assert torch.equal(model[i].to_dense() != 0, dense[i].weight != 0)
        assert not torch.equal(model[i].to_dense(), dense[i].weight)


@pytest.mark.parametrize(("sparsity", "family"), [(0.75, "bsr_strips"), (0.9, "bsr_wgmma")])
def test_memory_of_blocks(sparsity, family):
    """Weights, gradients and Adam at 75 % in blocks of 32: below 0.3 of a dense layer's, which has 16 bytes an element. The
    second packing has blocks of 64 x 32, and zeros in them."""
    model = nn.Sequential(nn.Linear(2048, 2048))
    sparsmith.prune.magnitude_(model, sparsity, pattern=(32, 32))
    dense = Masked(model[0])
    report = sparsmith.optimize(model, tokens=(4096,), training=True, dtype=torch.bfloat16, device="none", progress=False,
                                arguments=["--families", family + ",sampled_wgmma"])
    layer = model[0]
    assert family in str(report)
    assert report.bytes == layer.packed.numel() + 16 * layer.values.numel() < 0.3 * 16 * 2048**2
    optimizer = adam(model)
    x = torch.randn(8, 2048)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y, expected = model(x), dense(x)
        close(y, expected, torch.bfloat16)
        y.float().square().sum().backward()
        expected.float().square().sum().backward()
    gradient = dense.weight.grad[dense.mask]
    assert (layer.values.grad - gradient).norm() < 0.02 * gradient.norm()
    optimizer.step()
    held = [layer.packed, layer.values, layer.values.grad, *optimizer.state[layer.values].values()]
    assert sum(tensor.numel() * tensor.itemsize for tensor in held) <= report.bytes + 64
    assert optimizer.state[layer.values]["exp_avg"].dtype == torch.float32


def test_files_and_models_that_do_not_fit(tmp_path):
    model, path = mlp(), tmp_path / "model.tuned.safetensors"
    sparsmith.tune(model, path, tokens=(4,), memory="8x", device="none", progress=False)
    with pytest.raises(SparsmithError, match="0.weight was tuned for spmm alone: tune with training=True"):
        sparsmith.patch_model(model, path, training=True)
    optimized(copy.deepcopy(model), output=path)
    with pytest.raises(SparsmithError, match="loaded for constant weights: load it with training=True"):
        sparsmith.patch_model(model, sparsmith.load(path), training=True)
    with pytest.raises(SparsmithError, match="loaded for constant weights"):
        TrainableSparseLinear.from_tuned(sparsmith.load(path), "0.weight")
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[2].weight.view(-1)[(other[2].weight.view(-1) == 0).nonzero()[:3]] = 1
    with pytest.raises(SparsmithError, match="2: 3 nonzeros of the weight are outside"):
        sparsmith.patch_model(other, path, training=True)
    assert type(other[0]) is nn.Linear and type(other[2]) is nn.Linear
    layer = TrainableSparseLinear(other[2].weight)
    with pytest.raises(SparsmithError, match="another pattern than the layer"):
        layer.attach(sparsmith.load(path, training=True), "2.weight")
    with torch.no_grad():  # zeros in the pattern are no other pattern
        model[0].weight.view(-1)[model[0].weight.view(-1).nonzero()[:5]] = 0
    report = sparsmith.patch_model(model, path, training=True)
    assert len(report.patched) == 2 and (model[0].values == 0).sum() == 5


PROCESS = """
import sys
import torch, torch.distributed as dist, sparsmith
from torch import nn
rank, world, folder, device = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if world > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
state = torch.load(f"{folder}/start.pt")
model.load_state_dict(state["model"])
model.to(device)
report = sparsmith.patch_model(model, f"{folder}/model.tuned.safetensors", training=True)
assert len(report.patched) == 2, report
if world > 1:
    model = nn.parallel.DistributedDataParallel(model)
    assert not model.modules_buffers, "constant bytes are not sent in each step"
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for x, y in zip(state["x"].to(device).chunk(world, 1)[rank], state["y"].to(device).chunk(world, 1)[rank]):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if world > 1:
        dist.all_reduce(loss)
    print(f"{loss.item() / world:.9f}")
"""


def test_distributed_data_parallel(device, tmp_path):
    """Two processes, on one GPU if there is one, have the losses of one process with the whole batch."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    sparsmith.prune.magnitude_(model, 0.9)
    torch.save({"model": model.state_dict(), "x": torch.randn(5, 8, 64), "y": torch.randn(5, 8, 64)}, tmp_path / "start.pt")
    sparsmith.optimize(model.to(device), tokens=(4,), training=True, device=device_of(device), memory="8x", progress=False,
                       output=tmp_path / "model.tuned.safetensors")

    def run(world):
        started = [subprocess.Popen([sys.executable, "-c", PROCESS, str(rank), str(world), str(tmp_path), device], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(world)]
        results = [process.communicate(timeout=300) for process in started]
        assert all(process.returncode == 0 for process in started), results
        return [[float(line) for line in out.split()] for out, _ in results]

    alone, (first, second) = run(1)[0], run(2)
    assert first == second and len(alone) == 5
    torch.testing.assert_close(first, alone, atol=1e-6, rtol=1e-5)
    assert alone[0] != alone[1]


# --- block-sparse layers


@pytest.fixture
def block_tuning(monkeypatch):
    """The search of the first forward, made short, and with memory enough for small layers to become sparse."""
    real = BlockSparseLinear._tune
    monkeypatch.setattr(BlockSparseLinear, "_tune", lambda layer, tokens, training, options: real(
        layer, tokens, training, {"memory": "8x", "candidates": 1, "device": device_of(layer.bias.device.type), **options}))


def test_block_sparse_layers_train(block_tuning, device):
    layer = BlockSparseLinear(128, 64, density=0.25).to(device)
    with torch.no_grad():
        layer.layer.values[:1024] = 0  # of a row of blocks; they stay in the pattern
    blocks = layer.block_mask()
    optimizer, held = adam(layer), layer.layer.values
    dense = Masked(nn.Linear(128, 64).to(device))
    dense.weight.data.copy_(layer.to_dense())
    dense.bias.data.copy_(layer.bias.detach())
    dense.mask.copy_(blocks.repeat_interleave(32, 0).repeat_interleave(32, 1))
    xs, ys = torch.randn(5, 12, 128, device=device), torch.randn(5, 12, 64, device=device)
    got, expected = losses(layer, xs, ys, optimizer, 5), losses(dense, xs, ys, adam(dense), 5)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
    assert layer.layer.values is held and torch.equal(layer.block_mask(), blocks)
    assert layer.layer.tuned.trains and [choice.tokens for choice in layer.layer.tuned.choices] == [12]
    close(layer.to_dense(), (dense.weight * dense.mask).detach(), torch.float32)
    state = copy.deepcopy(layer.state_dict())
    state["weight"] *= layer.block_mask().repeat_interleave(32, 0).repeat_interleave(32, 1).cumsum(0) > 32
    layer.load_state_dict(state)  # with a block of zeros
    assert torch.equal(layer.block_mask(), blocks) and layer.layer.values is held


def test_block_sparse_layers_train_under_autocast(block_tuning, device):
    layer = BlockSparseLinear(128, 64, density=0.25).to(device)
    x = torch.randn(12, 128, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        layer(x).float().sum().backward()
    assert layer.layer.dtype == torch.bfloat16 and layer.layer.values.grad.dtype == torch.float32
    assert layer.layer.tuned.trains
    with torch.no_grad():
        close(layer(x), nn.functional.linear(x, layer.to_dense(), layer.bias), torch.float32)


def test_the_patched_encoder_trains(block_tuning, device):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(3)
    config = transformers.BertConfig(vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                     num_attention_heads=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = transformers.BertForSequenceClassification(config).to(device)
    patcher = ModelPatcher()
    patcher.add_pattern(r"bert\.encoder\.layer\.[0-9]+\.intermediate\.dense", {"density": 0.25})
    patcher.add_pattern(r"bert\.encoder\.layer\.[0-9]+\.output\.dense", {"density": 0.25})
    assert len(patcher.patch_model(model)) == 4
    other = copy.deepcopy(model)
    for module in other.modules():
        if isinstance(module, BlockSparseLinear):
            module._decided = "training"  # computes densely
    ids, labels = torch.randint(0, 64, (6, 4, 5), device=device), torch.randint(0, 2, (6, 4), device=device)

    def run(trained):
        optimizer, found = torch.optim.AdamW(trained.parameters(), lr=1e-3), []
        for i in range(6):
            optimizer.zero_grad()
            loss = trained(ids[i], labels=labels[i]).loss
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    got, expected = run(model), run(other)
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)
    for name, module in model.named_modules():
        if isinstance(module, BlockSparseLinear):
            assert module.layer.tuned is not None and other.get_submodule(name).layer.tuned is None and module.density == 0.25
            assert not torch.equal(module.layer.values, torch.zeros(1, device=device))
