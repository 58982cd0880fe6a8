"""Patterns that move: packings on the device, RigL and SET, gradual pruning."""

import copy
import doctest
import math
import pickle
import subprocess
import sys

import pytest
import torch
from conftest import adam, close, device_of
from torch import nn

import sparsmith
from sparsmith import (
    SparseLinear,
    SparsmithError,
    TrainableSparseLinear,
    _library,
    patterns,
    prune,
    trainable_linear,
    training,
)
from sparsmith.training import SET, GradualPruning, RigL


def moving(shape, block, sparsity=0.9, *, device="cpu", dtype=torch.bfloat16, tokens=4096, values=None, pattern="drawn", **options):
    """A layer [out_features, in_features] whose pattern may move, with the kernels that its shape asks for."""
    linear = nn.Linear(shape[1], shape[0], bias=False).to(device, dtype)
    prune.random_(linear, sparsity, pattern=(block, block), seed=torch.initial_seed() % 1000)
    if pattern == "packed":  # as few tiles as there can be
        kept = linear.weight != 0
        linear.weight.data = torch.randn_like(linear.weight).view(-1)[:kept.numel()].view_as(kept)
        count = int(kept.sum()) // block**2
        grid = torch.zeros(shape[0] // block, shape[1] // block, dtype=torch.bool)
        grid.view(-1)[:count] = True
        linear.weight.data *= grid.repeat_interleave(block, 0).repeat_interleave(block, 1).to(device)
    options.setdefault("moving_block", block)
    layer = SparseLinear.from_linear(linear, tokens=(tokens,), training=True, device=device_of(device), memory="8x", **options)
    if values is not None:
        layer.values.data = layer.values.data.to(values)
    return layer


def drawn_pattern(shape, block, count, concentrated=False):
    """A mask of `count` elements in blocks; in few rows and columns of blocks if concentrated."""
    grid = torch.rand(shape[0] // block, shape[1] // block)
    if concentrated:
        grid += torch.rand(len(grid), 1) * 2 + torch.rand(grid.shape[1]) * 2
    mask = torch.zeros_like(grid, dtype=torch.bool)
    mask.view(-1)[grid.view(-1).topk(count // block**2).indices] = True
    return mask.repeat_interleave(block, 0).repeat_interleave(block, 1)


def verified(layer, mask, tokens=8):
    """The packed weight has the pattern in each of its packings; the products are those of the dense weight."""
    assert torch.equal(layer.to_dense().cpu() != 0, mask & (layer.to_dense().cpu() != 0))
    assert torch.equal(layer.block_pattern().positions().cpu(), mask.view(-1).nonzero().view(-1))
    _library.check_packed(layer.plan, layer.packed.cpu())
    device, dtype = layer.values.device, layer.tuned.dtype
    dense = layer.to_dense().requires_grad_()
    x = torch.randn(tokens, layer.in_features, device=device, dtype=dtype).requires_grad_()
    grad = torch.randn(tokens, layer.out_features, device=device, dtype=dtype) / 4
    y, expected = layer(x), nn.functional.linear(x, dense)
    found = torch.autograd.grad(y, (x, layer.values), grad)
    wanted = torch.autograd.grad(expected, (x, dense), grad)
    close(y, expected, dtype)
    close(found[0], wanted[0], dtype)
    close(found[1].cpu(), wanted[1].cpu()[mask], dtype)


# Shapes, blocks and types with all packings of patterns that move.
CASES = [((2048, 2048), 32, torch.bfloat16, "bsr_wgmma/bsr_wgmma/sampled_wgmma", {}),
         ((2048, 1536), 64, torch.float16, "bsr_wgmma/bsr_wgmma/sampled_wgmma", {}),
         ((1000, 1304), 1, torch.bfloat16, "dense/dense/dense", {}),
         ((1000, 1304), 1, torch.bfloat16, "dense/dense/dense", {"sparsity": 0.98}),
         ((333, 257), 1, torch.float32, "dense/dense/dense", {})]


@pytest.mark.parametrize(("shape", "block", "dtype", "choices", "options"), CASES)
def test_the_packed_weight_follows_the_pattern(device, shape, block, dtype, choices, options):
    layer = moving(shape, block, device=device, dtype=dtype, **options)
    assert choices in layer.tuned.choices_text()
    verified(layer, patterns.unblocked(patterns.blocked(layer.to_dense().cpu() != 0, block).any(3).any(2)[..., None, None]
                                       .expand(-1, -1, block, block)))
    held, address = layer.values, layer.packed.data_ptr()
    for i in range(4):
        mask = drawn_pattern(shape, block, layer.values.numel(), i % 2 == 1)
        before = layer.to_dense().cpu()
        carry = layer.update_pattern(mask if i < 2 else mask.view(-1).nonzero().view(-1).to(device))
        assert torch.equal(layer.to_dense().cpu(), before * mask), "values stay where the pattern does"
        assert int((~carry.new).sum()) * block >= int((mask & (before != 0)).sum())
        with torch.no_grad():
            layer.values.copy_(torch.randn_like(layer.values))
        for packing in layer.tuned.packings:  # values of an older pattern lie where a writer writes all
            array = packing["arrays"].get("values")
            if array and packing["facts"].get("place_kind", 0) > 0:
                layer.packed[array["offset"]:array["offset"] + array["bytes"]] = 1
        verified(layer, mask)
        assert layer.values is held and layer.packed.data_ptr() == address
        assert torch.equal(layer.column_indices.long(), mask.nonzero()[:, 1])
        assert torch.equal(layer.row_offsets.diff().long(), mask.sum(1))


@pytest.mark.parametrize(("shape", "block", "dtype", "choices", "options"), CASES[:3])
def test_packings_equal_those_of_the_host(tmp_path, shape, block, dtype, choices, options):
    """Byte for byte, but for the order of rows of blocks, which need not be in pairs."""
    layer = moving(shape, block, dtype=dtype, **options)
    layer.update_pattern(drawn_pattern(shape, block, layer.values.numel(), True))
    with torch.no_grad():
        layer.values.copy_(torch.randn_like(layer.values).abs() + 1)
    linear = nn.Linear(shape[1], shape[0], bias=False).to(dtype)
    linear.weight.data = layer.to_dense()
    path = tmp_path / "layer.tuned.safetensors"
    sparsmith.tune(nn.ModuleDict({"layer": linear}), path, tokens=(4096,), training=True, moving_block=block, device="none",
                   memory="8x", progress=False)
    file = sparsmith.load(path, training=True)
    host, compared = file.packed("layer.weight"), 0
    for packing in file["layer.weight"].packings:
        of_layer = next(other for other in layer.tuned.packings if other["packing"] == packing["packing"])
        for name, array in packing["arrays"].items():
            if name in ("blocks", "values", "row_order") or name.startswith("place_"):
                continue
            begin = of_layer["arrays"][name]["offset"]
            assert array["bytes"] <= of_layer["arrays"][name]["bytes"]
            assert torch.equal(layer.packed[begin:begin + array["bytes"]], host[array["offset"]:][:array["bytes"]]), name
            compared += 1
    assert compared >= 2


def test_patterns_that_do_not_fit_change_nothing(device):
    # Tuned for a pattern of 32 x 32, of which single elements move: they may touch every tile.
    layer = moving((2048, 2048), 32, moving_block=1, device=device)
    assert "bsr_wgmma" in layer.tuned.choices_text()
    mask = layer.to_dense().cpu() != 0
    packed, values = layer.packed.clone(), layer.values.detach().clone()
    count = layer.values.numel()
    spread = drawn_pattern((2048, 2048), 1, count)
    for pattern, message in [(spread, "tiles of packing .*, which has room for"), (mask.clone().fill_(False), f"0 elements, and the layer {count}"),
                             (layer.positions().flip(0), "do not ascend"), (layer.positions() - layer.positions()[0] - 1, "do not ascend"),
                             (layer.positions() + 2048**2, f"from 0 to {2048**2 - 1}"),
                             (spread[1:], r"takes a mask of bool, \[2048, 2048\], or positions of int64, not torch.bool"),
                             (layer.positions().float(), "not torch.float32")]:
        with pytest.raises(SparsmithError, match=message):
            layer.update_pattern(pattern)
        assert torch.equal(layer.packed, packed) and torch.equal(layer.values, values)
    verified(layer, mask)
    with pytest.raises(SparsmithError, match="pattern of this layer is constant: make it with moving_block"):
        TrainableSparseLinear(torch.eye(4)).update_pattern(torch.eye(4).bool())


def test_files_that_do_not_fit(tmp_path):
    linear = nn.Linear(512, 512, bias=False)
    prune.random_(linear, 0.9)
    model, path = nn.Sequential(linear), tmp_path / "model.tuned.safetensors"
    sparsmith.tune(model, path, tokens=(64,), training=True, device="none", memory="8x", progress=False)
    with pytest.raises(SparsmithError, match="does not take other patterns"):
        sparsmith.load(path, training=True, moving_block=1)
    with pytest.raises(SparsmithError, match="training=True"):
        sparsmith.load(path, moving_block=1)
    with pytest.raises(SparsmithError, match="training=True"):
        sparsmith.tune(model, path, moving_block=1)
    sparsmith.tune(model, path, tokens=(64,), training=True, moving_block=1, device="none", progress=False)
    with pytest.raises(SparsmithError, match="moving_block=0, and the layer has moving_block=1"):
        TrainableSparseLinear(linear.weight, moving_block=1).attach(sparsmith.load(path, training=True), "0.weight")
    layer = TrainableSparseLinear.from_tuned(sparsmith.load(path, training=True, moving_block=1), "0.weight")
    assert torch.equal(layer.to_dense(), linear.weight)
    with pytest.raises(SparsmithError, match="0.weight: 512 x 512 do not divide into blocks of 5 x 5"):
        sparsmith.load(path, training=True, moving_block=5)
    with pytest.raises(SparsmithError, match="moving_block is -1"):
        sparsmith.load(path, training=True, moving_block=-1)


@pytest.mark.parametrize("block", [1, 4, 32])
def test_no_memory_that_is_not_said(block):
    """Of a layer between updates: values, gradient, two moments, packings and the pattern."""
    layer = moving((1024, 1024), block)
    optimizer = adam(layer)
    for _ in range(2):
        layer(torch.randn(8, 1024, dtype=torch.bfloat16)).sum().backward()
        optimizer.step()
        layer.update_pattern(drawn_pattern((1024, 1024), block, layer.values.numel()))
    pattern = layer._pattern
    found = [] if pattern is None else [value for key, value in vars(pattern).items() if key in ("rows", "columns", "runs")]
    held = [layer.values, layer.values.grad, *optimizer.state[layer.values].values(), layer.packed, layer._blocks, *found]
    own, dense = trainable_linear.training_bytes(layer.tuned, layer.values.dtype)
    grid_rows = 8 * (block + 2) * (1024 // block)  # numbers of the rows of blocks
    assert sum(tensor.nbytes for tensor in held) <= own + 64 < dense
    if pattern is not None:
        others = [tensor for value in vars(pattern).values() for tensor in (value if isinstance(value, tuple) else (value,))
                  if isinstance(tensor, torch.Tensor) and all(tensor is not each for each in (*found, layer._blocks))]
        assert sum(tensor.nbytes for tensor in others) <= grid_rows + 64


# --- schedules


def mlp(block=1, sparsity=0.8, device="cpu", sizes=(64, 96, 64), **options):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2])).to(device)
    prune.random_(model, sparsity, pattern=(block, block), **options)
    return model


def moves(model, block=1):
    """Untuned layers that move."""
    for i in (0, 2):
        model[i] = TrainableSparseLinear(model[i].weight, model[i].bias, moving_block=block)
    return model


def tuned_moves(model, block, device="cpu"):
    report = sparsmith.optimize(model, tokens=(64,), training=True, moving_block=block, progress=False, device=device_of(device))
    assert len(report.patched) == 2
    return model


def train(model, optimizer, schedule, steps, seed=5):
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    losses = []
    for _ in range(steps):
        x, y = (torch.randn(16, size, generator=generator).to(device) for size in (64, 64))
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def reference_step(weight, mask, gradient, share, block):
    """RigL on dense tensors: the new mask. Scores have no ties."""
    def units(tensor):
        return patterns.blocked(tensor, block).sum((2, 3)).view(-1)

    held = units(mask.double()) > 0
    count = round(share * int(held.sum()))
    norms = units(weight.double().square()).masked_fill(~held, math.inf)
    held[norms.argsort()[:count]] = False
    growth = units(gradient.double().square()).masked_fill(held, -1)
    held[growth.argsort(descending=True)[:count]] = True
    grid = held.view(mask.shape[0] // block, mask.shape[1] // block)
    return grid.repeat_interleave(block, 0).repeat_interleave(block, 1)


@pytest.mark.parametrize(("block", "tuned"), [(1, False), (1, True), (8, False), (16, True)])
def test_rigl_equals_a_masked_model(device, block, tuned):
    model = mlp(block, device=device)
    masked = copy.deepcopy(model)
    masks = {i: masked[i].weight.detach() != 0 for i in (0, 2)}
    model = tuned_moves(model, block, device) if tuned else moves(model, block)
    optimizer, other = adam(model), adam(masked)
    rigl = RigL(model, optimizer, steps=40, interval=3, fraction=0.4)
    generator, updates = torch.Generator().manual_seed(1), 0
    for step in range(1, 13):
        x, y = (torch.randn(32, 64, generator=generator).to(device) for _ in range(2))
        losses = [nn.functional.mse_loss(each(x), y) for each in (model, masked)]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-5)
        for loss in losses:
            loss.backward()
        dense = {i: masked[i].weight.grad.clone() for i in masks}
        for i, mask in masks.items():
            masked[i].weight.grad *= mask
        watched = rigl._due(step)
        if watched:
            for i in masks:
                torch.testing.assert_close(model[i].dense_zeros.grad, dense[i], rtol=1e-3, atol=1e-5)
                dense[i] = model[i].dense_zeros.grad.clone()
        optimizer.step()
        other.step()
        share = rigl.fraction / 2 * (1 + math.cos(math.pi * step / 30))
        expected = {i: reference_step(model[i].to_dense(), masks[i], dense[i], share, block) for i in masks}
        moved = rigl.step()
        assert moved == (step % 3 == 0) == watched
        with torch.no_grad():
            for i in (0, 2):
                if moved:
                    updates += int((expected[i] & ~masks[i]).sum())
                    masks[i] = expected[i]
                masked[i].weight *= masks[i]
                for moment in ("exp_avg", "exp_avg_sq"):
                    other.state[masked[i].weight][moment] *= masks[i]
                assert torch.equal(model[i].block_pattern().positions(), masks[i].view(-1).nonzero().view(-1)), (step, i)
                for moment in ("exp_avg", "exp_avg_sq"):
                    got, wanted = optimizer.state[model[i].values][moment], other.state[masked[i].weight][moment][masks[i]]
                    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-5)
        optimizer.zero_grad()
        other.zero_grad()
    assert updates > 100
    assert model[0].dense_zeros is None, "no dense gradient where no update follows"


def test_updates_end(device):
    model = moves(mlp(device=device))
    rigl = RigL(model, adam(model), steps=20, interval=2, fraction=0.5, end=0.5)
    counts = []
    for _ in range(20):
        before = model[0].block_pattern().positions()
        train(model, rigl.optimizer, rigl, 1)
        counts.append(len(before) - int(torch.isin(before, model[0].block_pattern().positions()).sum()))
    assert all((count == 0) == (step % 2 == 0 or step > 9) for step, count in enumerate(counts) if step != 9), counts
    assert counts[1] > counts[5]


@pytest.mark.parametrize("kind", [RigL, SET])
def test_resume_bit_by_bit(device, kind, tmp_path):
    model = tuned_moves(mlp(16, device=device), 16, device)
    start = copy.deepcopy(model)
    optimizer = adam(model)
    schedule = kind(model, optimizer, steps=30, interval=3)
    first = train(model, optimizer, schedule, 7)
    torch.save([each.state_dict() for each in (model, optimizer, schedule)], tmp_path / "state.pt")
    expected = train(model, optimizer, schedule, 8, seed=6)
    assert not torch.equal(start[0].column_indices, model[0].column_indices)
    again = adam(start)
    resumed = kind(start, again, steps=30, interval=3, seed=9)
    states = torch.load(tmp_path / "state.pt", weights_only=True)
    for each, state in zip((start, again, resumed), states, strict=True):
        each.load_state_dict(state)
    assert train(start, again, resumed, 8, seed=6) == expected and len(set(first + expected)) == 15
    assert torch.equal(start[0].column_indices, model[0].column_indices)
    verified_copy = pickle.loads(pickle.dumps(model))
    x = torch.randn(4, 64, device=device)
    with torch.no_grad():
        assert torch.equal(verified_copy(x), model(x))


def test_bad_states_change_nothing():
    model = moves(mlp())
    state, before = model.state_dict(), model[0].positions()
    for key, value, message in [("0.column_indices", state["0.column_indices"] + 64, "are none of a weight"),
                                ("0.column_indices", state["0.column_indices"].flip(0), "do not ascend|are none"),
                                ("0.row_offsets", state["0.row_offsets"][1:], "are none of a weight"),
                                ("0.row_offsets", state["0.row_offsets"].flip(0), "are none of a weight")]:
        with pytest.raises(RuntimeError, match=message):
            model.load_state_dict({**state, key: value})
        assert torch.equal(model[0].positions(), before)
    other = moves(mlp(seed=8))
    assert not torch.equal(other[0].positions(), before)
    dense = {"0.weight": other[0].to_dense(), "2.weight": other[2].to_dense(), "0.bias": other[0].bias, "2.bias": other[2].bias}
    model.load_state_dict(dense)
    assert torch.equal(model[0].to_dense(), other[0].to_dense())


def test_schedules_of_nothing_are_errors():
    model = moves(mlp())
    for wrong in ({"interval": 0}, {"fraction": 0}, {"fraction": 1.5}, {"end": 2}, {"steps": 0}):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            RigL(model, adam(model), **{"steps": 10, **wrong})
    with pytest.raises(ValueError, match="no layer whose pattern may move"):
        SET(mlp(), adam(model), steps=10)
    with pytest.raises(ValueError, match="6 x 6 do not divide into blocks of 4 x 4"):
        TrainableSparseLinear(torch.eye(6), moving_block=4)
    with pytest.raises(ValueError, match="not made of blocks of 2 x 2"):
        TrainableSparseLinear(torch.eye(6), pattern=trainable_linear.pattern_of(torch.eye(6) != 0), moving_block=2)
    assert TrainableSparseLinear(torch.eye(6), moving_block=2).values.tolist() == [1.0, 0, 0, 1] * 3
    rigl = RigL(model, adam(model), steps=10, interval=1)
    with pytest.raises(RuntimeError, match="after backward"):
        rigl.step()


def test_under_autocast_and_checkpointing(device):
    from torch.utils.checkpoint import checkpoint

    model = mlp(16, device=device)
    sparsmith.optimize(model, tokens=(64,), training=True, moving_block=16, dtype=torch.bfloat16, progress=False,
                       device=device_of(device))
    optimizer = adam(model)
    rigl = RigL(model, optimizer, steps=40, interval=2)
    for _ in range(6):
        x = torch.randn(16, 64, device=device, requires_grad=True)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = checkpoint(model, x, use_reentrant=False).float().square().mean()
        loss.backward()
        assert model[0].dense_zeros is None or model[0].dense_zeros.grad.dtype == torch.float32
        optimizer.step()
        rigl.step()
        optimizer.zero_grad()
        assert loss.isfinite()


PROCESS = """
import sys, hashlib
import torch, torch.distributed as dist, sparsmith
from torch import nn
from sparsmith.training import RigL, SET
rank, world, folder, device, kind = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
if world > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
state = torch.load(f"{folder}/start.pt")
model.load_state_dict(state["model"])
model.to(device)
sparsmith.patch_model(model, sparsmith.load(f"{folder}/model.tuned.safetensors", training=True, moving_block=8), training=True)
layers = model[0], model[2]
run = nn.parallel.DistributedDataParallel(model) if world > 1 else model
optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
schedule = {"RigL": RigL, "SET": SET}[kind](model, optimizer, steps=400, interval=1, fraction=0.3, end=0.5)
for step in range(200):
    x, y = (state[key][step % len(state[key])].to(device).chunk(world)[rank] for key in "xy")
    loss = nn.functional.mse_loss(run(x), y)
    loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    if world > 1:
        dist.all_reduce(loss)
    if step < 5:
        print(f"{loss.item() / world:.7f}")
for layer in layers:
    for tensor in (layer.column_indices, layer.values.detach().cpu()):
        print(hashlib.sha256(bytes(tensor.view(torch.uint8).tolist())).hexdigest())
    assert layer.tuned is not None
"""


@pytest.mark.parametrize("kind", ["RigL", "SET"])
def test_processes_have_equal_patterns_after_200_updates(device, kind, tmp_path):
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    prune.random_(model, 0.75, pattern=(8, 8))
    torch.save({"model": model.state_dict(), "x": torch.randn(5, 8, 64), "y": torch.randn(5, 8, 64)}, tmp_path / "start.pt")
    sparsmith.optimize(model.to(device), tokens=(4,), training=True, moving_block=8, device=device_of(device), progress=False,
                       output=tmp_path / "model.tuned.safetensors")

    def run(world):
        started = [subprocess.Popen([sys.executable, "-c", PROCESS, str(rank), str(world), str(tmp_path), device, kind], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(world)]
        results = [process.communicate(timeout=300) for process in started]
        assert all(process.returncode == 0 for process in started), results
        return [out.split() for out, _ in results]

    first, second = run(2)
    assert first == second and len(first) == 9 and len(set(first)) == 9
    alone = run(1)[0]
    torch.testing.assert_close([float(each) for each in first[:3]], [float(each) for each in alone[:3]], atol=2e-4, rtol=2e-4)


# --- drawn, gradual


def test_erk_keeps_more_of_small_layers():
    model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 64), nn.Linear(64, 16))
    layers = prune.random_(model, 0.9, distribution="erk", seed=1)
    densities = [1 - layer.zeros / (layer.shape[0] * layer.shape[1]) for layer in layers]
    assert densities[0] < densities[1] < densities[2] == 1.0
    kept = sum(layer.shape[0] * layer.shape[1] - layer.zeros for layer in layers)
    assert abs(kept - 0.1 * (512 * 512 + 512 * 64 + 64 * 16)) < 3
    assert densities[1] / densities[0] == pytest.approx((512 + 64) / (512 * 64) / (1024 / 512**2), rel=1e-3)
    again = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 64), nn.Linear(64, 16))
    prune.random_(again, 0.9, pattern=(8, 8), seed=1)
    blocks = patterns.blocked(again[0].weight.detach() != 0, 8).sum((2, 3))
    assert set(blocks.view(-1).tolist()) == {0, 64} and int((blocks > 0).sum()) == round(0.1 * 64 * 64)
    with pytest.raises(ValueError, match="distribution"):
        prune.random_(again, 0.9, distribution="other")


@pytest.mark.parametrize("usefulness", ["magnitude", "gradient", "movement"])
def test_gradual_pruning(device, usefulness):
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64)).to(device)
    optimizer = adam(model)
    schedule = GradualPruning(model, sparsity=0.75, steps=40, interval=5, usefulness=usefulness, block=8)
    sums = {name: torch.zeros_like(weight) for name, weight in schedule.weights.items()}
    sparsities, generator = [], torch.Generator().manual_seed(1)
    for step in range(40):
        x = torch.randn(16, 64, generator=generator).to(device)
        model(x).square().mean().backward()
        for name, weight in schedule.weights.items():
            product = weight.detach() * weight.grad
            sums[name] += product.abs() if usefulness == "gradient" else -product
        optimizer.step()
        masks = {name: mask.clone() for name, mask in schedule.masks.items()}
        schedule.step()
        optimizer.zero_grad()
        for name, weight in schedule.weights.items():
            scores = patterns.blocked(weight.detach().square() if usefulness == "magnitude" else sums[name], 8).sum((2, 3))
            kept = patterns.blocked(schedule.masks[name], 8).float().mean((2, 3))
            assert set(kept.view(-1).tolist()) <= {0.0, 1.0}
            assert not (schedule.masks[name] & ~masks[name]).any(), "what is pruned stays so"
            assert (weight[~schedule.masks[name]] == 0).all()
            if usefulness != "magnitude" and (step + 1) % 5 == 0 and step < 30:
                was = patterns.blocked(masks[name], 8)[:, :, 0, 0]
                gone = was & (kept == 0)
                assert not gone.any() or scores[gone].max() <= scores[kept == 1].min() + 1e-6
        sparsities.append(float((model[0].weight == 0).float().mean()))
    assert sparsities[3] == 0 and sparsities[4] == pytest.approx(0.75 * (1 - (1 - 5 / 30) ** 3), abs=0.006)
    assert sparsities[29] == sparsities[-1] == 0.75
    state = pickle.loads(pickle.dumps(schedule.state_dict()))
    other = GradualPruning(copy.deepcopy(model), sparsity=0.75, steps=40, interval=5, usefulness=usefulness, block=8)
    other.load_state_dict(state)
    assert other.steps_done == 40 and all(torch.equal(other.masks[name], mask) for name, mask in schedule.masks.items())


def test_gradual_pruning_of_nothing_is_an_error():
    model = nn.Sequential(nn.Linear(12, 12))
    for wrong, message in [({"sparsity": 1.0}, "sparsity is between"), ({"interval": 0}, "1 or more"),
                           ({"usefulness": "luck"}, "use 'magnitude'"), ({"block": 8}, "do not divide into blocks of 8 x 8"),
                           ({"filter_fn": lambda module, name: False}, "no layer to prune")]:
        with pytest.raises(ValueError, match=message):
            GradualPruning(model, **{"sparsity": 0.5, "steps": 10, **wrong})


# --- patterns


def test_triplets():
    rows, columns, values = torch.tensor([2, 0, 1]), torch.tensor([1, 3, 0]), torch.tensor([1.0, 2, 3])
    positions, ordered = patterns.from_triplets(rows, columns, values, (3, 4))
    assert positions.tolist() == [3, 4, 9] and ordered.tolist() == [2, 3, 1]
    mask = torch.zeros(3, 4, dtype=torch.bool)
    mask[rows, columns] = True
    for pattern in (patterns.BlockPattern.of_mask(mask, 1), patterns.BlockPattern.of_positions(positions, 1, (3, 4))):
        assert torch.equal(pattern.positions(), positions) and pattern.row_offsets().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="outside of 3 x 4"):
        patterns.from_triplets(rows, columns + 1, values, (3, 4))
    with pytest.raises(ValueError, match="there twice"):
        patterns.from_triplets(rows[[0, 0]], columns[[0, 0]], values[:2], (3, 4))


def test_blocks():
    weight = torch.randn(6, 9)
    blocks = patterns.blocked(weight, 3)
    assert blocks.shape == (2, 3, 3, 3) and torch.equal(blocks[1, 2], weight[3:, 6:])
    assert torch.equal(patterns.unblocked(blocks), weight)
    grid = torch.rand(2, 3) < 0.5
    mask = grid.repeat_interleave(3, 0).repeat_interleave(3, 1)
    pattern = patterns.BlockPattern.of_mask(mask, 3)
    assert pattern.blocks.tolist() == grid.view(-1).nonzero().view(-1).tolist() and pattern.nnz == int(mask.sum())
    assert torch.equal(pattern.positions(), mask.view(-1).nonzero().view(-1))
    assert torch.equal(pattern.column_indices(), mask.nonzero()[:, 1])
    assert torch.equal(pattern.row_offsets().diff(), mask.sum(1))
    torch.testing.assert_close(pattern.norms(weight[mask]), (blocks[grid] ** 2).sum((1, 2)))
    mask[0, 0] = ~mask[0, 0]
    with pytest.raises(ValueError, match="not made of blocks of 3 x 3"):
        patterns.BlockPattern.of_mask(mask, 3)
    with pytest.raises(ValueError, match="6 x 9 do not divide into blocks of 4 x 4"):
        patterns.blocked(weight, 4)


def test_examples():
    for module in (patterns, prune, training):
        results = doctest.testmod(module)
        assert results.failed == 0
    assert doctest.testmod(patterns).attempted > 0
