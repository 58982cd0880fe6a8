"""Patterns that move: the packings of a layer, made on its device."""

import doctest

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
    """Byte for byte, but for the order of rows of blocks, which need not be in pairs. Halves of rows stay with those that have
    many columns of the first pattern: the host reads such packings instead."""
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
        if "half_rows" in packing["arrays"]:
            sparsmith._library.check_packed(layer.plan, layer.packed.cpu())
            compared += 1
            continue
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
