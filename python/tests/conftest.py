"""What the tests of the package share. They run on the CPU, and on a GPU where there is one."""

import os
import random

import pytest
import torch
from torch import nn

import sparsmith
from sparsmith import _library, tuned_file

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


@pytest.fixture
def no_compiler(tmp_path):
    """The command of a machine that has a GPU, and no NVRTC."""
    program = tmp_path / "sparsmith"
    program.write_text("""#!/bin/sh
test "$1" = doctor && echo '{"findings": [{"what": "NVRTC", "there": false}]}'
exit 4
""")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_library, "program", lambda: str(program))
        yield patch


@pytest.fixture
def dense_warning():
    """Expects one warning that layers stay dense."""
    tuned_file.warn_dense.cache_clear()
    with pytest.warns(UserWarning, match="layers stay dense.*sparsmith doctor") as caught:
        yield
    assert len(caught) == 1


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


# What a test of a patched model asks: quick tuning, and what a model was before.
TUNE = {"tokens": (1, 16), "memory": "8x", "progress": False, "arguments": ["--candidates", "1"]}


def tuning_options(device="cpu"):
    return {**TUNE, "device": "cuda:0" if device == "cuda" else "emulator"}


def state_of(model):
    """All that a dry run must leave: the modules by name, and copies of their values."""
    return list(model.named_modules(remove_duplicate=False)), {k: v.clone() for k, v in model.state_dict().items()}


def unchanged(model, before):
    modules, values = state_of(model)
    return all(a[0] == b[0] and a[1] is b[1] for a, b in zip(modules, before[0], strict=True)) and \
        all(torch.equal(values[name], value) for name, value in before[1].items())


def names(report):
    return [layer.name for layer in report.patched]


def agree(sparse, dense, *args, **kwargs):
    with torch.no_grad():
        got, expected = sparse(*args, **kwargs), dense(*args, **kwargs)
    if not isinstance(got, torch.Tensor):
        got, expected = got[0], expected[0]
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


# What tests of layers that train share.


def device_of(device):
    return "cuda:0" if device == "cuda" else "none"


class Masked(nn.Module):
    """A dense layer whose weight is masked in each forward."""

    def __init__(self, layer):
        super().__init__()
        self.weight = nn.Parameter(layer.weight.detach().clone())
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().clone())
        self.register_buffer("mask", layer.weight.detach() != 0)

    def forward(self, x):
        return nn.functional.linear(x, self.weight * self.mask, self.bias)

    @property
    def values(self):
        return self.weight.detach()[self.mask]


def losses(model, xs, ys, optimizer, steps=6, autocast=None):
    found = []
    for i in range(steps):
        optimizer.zero_grad()
        with torch.autocast(xs.device.type, dtype=autocast, enabled=autocast is not None):
            loss = nn.functional.mse_loss(model(xs[i]).float(), ys[i])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        found.append(loss.item())
    return found


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.1)
