"""What the tests of the package share. They run on the CPU, and on a GPU where there is one."""

import os
import random

import pytest
import torch
from torch import nn

import sparsmith

# The least errors of a sum of some hundred products in each type, of outputs around 1.
TOLERANCE = {torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}


def pytest_report_header(config):
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none: tests on a GPU are skipped"
    return f"torch {torch.__version__}, GPU {gpu}"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return request.param


@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return "cuda"


@pytest.fixture(autouse=True)
def seed():
    """Draws a new seed, and prints it with a failing test."""
    value = int(os.environ.get("SPARSMITH_SEED", random.randrange(2**31)))
    print(f"SPARSMITH_SEED={value}")
    torch.manual_seed(value)
    return value


@pytest.fixture(autouse=True, scope="session")
def cache(tmp_path_factory):
    """A cache of the tests' own."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


def pruned_(weight: torch.Tensor, sparsity: float) -> None:
    with torch.no_grad():
        weight.mul_(torch.rand(weight.shape, device=weight.device) >= sparsity)


def sparse_linear(out_features=96, in_features=160, *, bias=True, dtype=torch.float32, device="cpu", sparsity=0.8):
    """A dense layer with zeros."""
    layer = nn.Linear(in_features, out_features, bias=bias).to(device, dtype)
    pruned_(layer.weight, sparsity)
    return layer


@pytest.fixture(scope="session")
def tuned_layers(tmp_path_factory):
    """A function that tunes a dense layer of some type: (layer, tuned file, name). Layers are made once for each set of
    arguments, so tests do not change them."""
    made = {}

    def make(dtype=torch.float32, device="cpu", bias=True, fused=False, **options):
        key = (dtype, device, bias, fused, *options.items())
        if key not in made:
            layer = sparse_linear(bias=bias, dtype=dtype, device=device, **options)
            path = tmp_path_factory.mktemp("tuned") / "layer.tuned.safetensors"
            arguments = ["--candidates", "2"] + (["--epilogue", "bias"] if fused else [])
            sparsmith.tune(nn.ModuleDict({"layer": layer}), path, tokens=(1, 16), arguments=arguments, progress=False,
                           device="cuda:0" if device == "cuda" else "emulator", memory="4x")
            made[key] = (layer, sparsmith.load(path), "layer.weight")
        return made[key]

    return make


def close(actual, expected, dtype):
    torch.testing.assert_close(actual.float(), expected.float(), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
