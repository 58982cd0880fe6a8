"""Schedules of patterns: RigL and SET on layers whose pattern moves, gradual pruning of dense ones."""

import copy
import math
import pickle
import subprocess
import sys

import pytest
import torch
from conftest import adam, device_of
from torch import nn

import sparsmith
from sparsmith import TrainableSparseLinear, patterns, prune, trainable_linear
from sparsmith.training import SET, GradualPruning, RigL


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
