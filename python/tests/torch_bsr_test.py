"""bench/torch_bsr.py: its input and its plans on the CPU; all of it where there is a GPU."""

import argparse
import importlib.util
import json
import math
import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/torch_bsr.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("torch_bsr", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments):
    done = subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=600)
    return done.returncode, done.stdout, done.stderr


def blocks(rows, cols, side, share, dtype=torch.float16):
    """A weight of full blocks."""
    kept = torch.rand(rows // side, cols // side) < share
    kept[0, 0] = True
    return (torch.rand(rows, cols) + 0.5).to(dtype) * kept.repeat_interleave(side, 0).repeat_interleave(side, 1)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {"a.weight": blocks(256, 512, 64, 0.3), "b.weight": blocks(128, 128, 32, 0.3, torch.bfloat16),
               "a.bias": torch.ones(256), "ids": torch.ones(4, 4, dtype=torch.int64)}
    save_file(tensors, path, {"format": "pt"})
    return path, tensors


def test_reads_matrices(script, model):
    path, tensors = model
    weights = script.read_weights(path, ["*"])
    assert sorted(weights) == ["a.weight", "b.weight"]
    for name, weight in weights.items():
        assert weight.dtype == tensors[name].dtype and torch.equal(weight, tensors[name])
    assert list(script.read_weights(path, ["b.*"])) == ["b.weight"]


def test_detects_blocks(script):
    for side in (16, 32, 64, 128):
        assert script.detect_block(blocks(1024, 2048, side, 0.3)) == side
    assert script.detect_block(blocks(96, 96, 32, 0.5)) == 32
    assert script.detect_block(torch.ones(100, 128)) == 0, "16 does not divide 100"
    assert script.detect_block(torch.zeros(128, 128)) == 0
    assert script.fill(blocks(1024, 2048, 64, 0.3), 32) == 1
    assert script.fill(torch.eye(64), 16) == 1 / 16


def test_copies_exceed_three_times_the_cache(script):
    assert script.copies_for(100, 1000, 10**9) == 31
    assert script.copies_for(4000, 1000, 10**9) == 1
    assert script.copies_for(100, 1000, 1000) == 5, "half of the free memory"
    assert script.copies_for(1, 10**6, 10**9) == script.MOST_COPIES


def test_the_grid_divides_the_tokens(script):
    for tokens in (16, 48, 128, 1024):
        metas = list(script.grid(8192, 8192, 64, tokens))
        assert metas and all(tokens % meta["SPLIT_N"] == 0 for meta in metas)
        tiles = {tokens // meta["SPLIT_N"] for meta in metas}
        assert all(tile >= 16 and tile & (tile - 1) == 0 for tile in tiles)
        assert max(tiles) == {16: 16, 48: 16, 128: 128, 1024: 256}[tokens]


@pytest.mark.parametrize("layout", ["token_major", "feature_major"])
def test_the_fastest_right_parameters_count(script, monkeypatch, layout):
    """On the CPU, with a kernel and times of the test's own."""
    taken, seen = {"default": 9, 1: 5, 2: 1, 4: 3}, []

    def kernel(_, bsr, x, beta, out, meta):
        split = meta["SPLIT_N"] if meta else "default"
        seen.append(x.stride())
        if split == 8:
            raise ValueError("no such tile\nand more")
        out.copy_((bsr.to_dense().float() @ x.float()) * (2 if split == 2 else 1))  # 2: wrong
        kernel.split = split

    class Launches:
        graph = object()

        def __init__(self, call, copies):
            call(copies - 1)
            self.time = taken[kernel.split] if "bsr_product" in call.__qualname__ else 20

        def us(self):
            return self.time

    monkeypatch.setattr(script._triton_ops, "bsr_dense_addmm", kernel)
    monkeypatch.setattr(script._triton_ops_meta, "tune_bsr_dense_addmm", lambda *_, **__: {"SPLIT_N": 1})
    monkeypatch.setattr(script, "Launches", Launches)
    monkeypatch.setattr(script, "grid", lambda *_: [{"SPLIT_N": split} for split in (2, 4, 8)])
    monkeypatch.setattr(script.torch.cuda, "mem_get_info", lambda: (1 << 30, 1 << 30))
    monkeypatch.setattr(script.torch.cuda, "get_device_properties", lambda _: argparse.Namespace(L2_cache_size=1 << 16))
    weight = blocks(128, 256, 32, 0.4)

    def measured(*ways):
        return script.measure(weight, 64, 32, argparse.Namespace(layout=layout, tune=ways, rounds=3))

    line = measured("torch", "grid")
    assert (line["dense_us"], line["torch_bsr_us"], line["config"]) == (20, 3, "grid SPLIT_N=4")
    assert line["error"] < 2**-9 and line["cold"] and line["graph"]
    assert measured("torch")["config"] == "torch SPLIT_N=1" and measured()["config"] == "default"
    assert set(seen) == {(1, 256) if layout == "token_major" else (64, 1)}
    monkeypatch.setattr(script._triton_ops_meta, "tune_bsr_dense_addmm", lambda *_, **__: {"SPLIT_N": 8})
    monkeypatch.setitem(script.LIMITS, torch.float16, 0.01)
    taken["default"] = math.inf
    line = measured("torch")
    assert line["torch_bsr_us"] is None and line["config"] == "torch SPLIT_N=8: no such tile"
    rows = list(script.table([{"weight": "a", "N": 64, "block": 32, "dtype": "fp16", **line}]))
    assert rows[-1] == "| a | 64 | 32 | fp16 | 20.00 | - | - | torch SPLIT_N=8: no such tile |"


def test_says_what_is_wrong(script, model, tmp_path, monkeypatch, capsys):
    path, _ = model
    empty = tmp_path / "empty"
    empty.touch()
    for arguments, reason in (((path, "--tokens", 8), "multiples of 16 tokens"),
                              ((path, "--block", 24), "invalid choice: 24"),
                              ((path, "--rounds", 0), "--rounds: at least 1"),
                              ((tmp_path / "none",), "none: No such file"),
                              ((SCRIPT,), "torch_bsr.py is no safetensors file"),
                              ((empty,), "empty is no safetensors file"),
                              ((path, "--weights", "c.*"), "has no fp16, bf16 or fp32 matrix whose name matches c.*")):
        monkeypatch.setattr(sys, "argv", ["torch_bsr.py", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            script.main()
        assert ended.value.code not in (0, None)
        assert reason in f"{ended.value.code} {capsys.readouterr().err}"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_needs_a_gpu(model):
    assert run("--help")[0] == 0
    code, output, errors = run(model[0])
    assert code == 1 and not output
    assert errors == "torch_bsr: PyTorch finds no CUDA GPU here; the script times kernels, so run it where there is one\n"


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["token_major", "feature_major"])
def test_times_weights(gpu, model, layout):
    code, output, errors = run(model[0], "--tokens", 16, 64, "--tune", "--rounds", 3, "--layout", layout)
    assert code == 0, errors
    lines = [json.loads(line) for line in output.splitlines()]
    assert [(line["weight"], line["N"], line["block"], line["dtype"]) for line in lines] == \
        [("a.weight", 16, 64, "fp16"), ("a.weight", 64, 64, "fp16"), ("b.weight", 16, 32, "bf16"),
         ("b.weight", 64, 32, "bf16")]
    for line in lines:
        assert line["dense_us"] > 0 and line["torch_bsr_us"] > 0 and line["error"] < 0.02, line
    assert errors.count("| a.weight |") == 2
