"""patch_model, optimize, unpatch_model and tune, for models of PyTorch."""

import copy
import pickle
import re
import subprocess
import sys

import pytest
import torch
from conftest import TUNE, agree, names, pruned_, sparse_linear, state_of, tuning_options, unchanged
from torch import nn
from torch.nn.utils import prune as torch_prune

import sparsmith
from sparsmith import SparseLinear, SparsmithError, linear


def sparse_model():
    """Three pruned layers in eval mode, and an activation. Always the same."""
    torch.manual_seed(0)
    return nn.Sequential(sparse_linear(128, 64), nn.ReLU(), sparse_linear(64, 128), sparse_linear(64, 64)).eval()


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """(model, tuned file): of sparse_model. Tests copy the model."""
    model = sparse_model()
    path = tmp_path_factory.mktemp("tuned") / "model.tuned.safetensors"
    sparsmith.tune(model, path, **tuning_options())
    file = sparsmith.load(path)
    assert not any(weight.dense for weight in file.weights.values())
    return model, file


# --- options and reports


def test_patch_model(tuned):
    dense, file = tuned
    for source in (file, file.path):
        model = copy.deepcopy(dense)
        report = sparsmith.patch_model(model, source)
        assert names(report) == ["0", "2", "3"] and [type(m) for m in model] == [SparseLinear, nn.ReLU, SparseLinear,
                                                                                 SparseLinear]
        agree(model, dense, torch.randn(5, 64))


@pytest.mark.parametrize(("options", "expected"), [
    ({"include": "^[02]$"}, ["0", "2"]),
    ({"include": ["0", "3"]}, ["0", "3"]),
    ({"include": "^$"}, []),
    ({"exclude": "2"}, ["0", "3"]),
    ({"exclude": ["2", "3"]}, ["0"]),
    ({"include": "[0-9]", "exclude": "0"}, ["2", "3"]),
    ({"filter_fn": lambda module, name: module.in_features == 64}, ["0", "3"]),
    ({"filter_fn": lambda module, name: name != "3", "exclude": "0"}, ["2"]),
])
def test_selection(tuned, options, expected):
    model = copy.deepcopy(tuned[0])
    report = sparsmith.patch_model(model, tuned[1], **options)
    assert names(report) == expected
    assert [name for name, module in model.named_modules() if isinstance(module, SparseLinear)] == expected
    assert {layer.reason for layer in report.layers if not layer.patched} == ({"not selected"} if len(expected) < 3 else set())
    agree(model, tuned[0], torch.randn(2, 64))


def test_bad_regular_expression(tuned):
    model = copy.deepcopy(tuned[0])
    with pytest.raises(re.error):
        sparsmith.patch_model(model, tuned[1], include="[")
    assert not any(isinstance(module, SparseLinear) for module in model)


def test_dry_run_changes_nothing(tuned):
    model = copy.deepcopy(tuned[0])
    before = state_of(model)
    report = sparsmith.patch_model(model, tuned[1], exclude="3", dry_run=True)
    assert unchanged(model, before)
    assert report.dry_run and "2 of 3 linear layers would become sparse" in str(report)
    wet = sparsmith.patch_model(model, tuned[1], exclude="3")
    assert not wet.dry_run and wet.layers == report.layers and not unchanged(model, before)


def test_report(tuned):
    dense, file = tuned
    model = nn.Sequential(*copy.deepcopy(dense), nn.Linear(64, 10))
    report = sparsmith.patch_model(model, file, exclude="2")
    assert [layer.name for layer in report.layers] == ["0", "2", "3", "4"]
    assert [layer.reason for layer in report.layers] == ["", "not selected", "", "not in the tuned file"]
    assert [layer.shape for layer in report.layers] == [(128, 64), (64, 128), (64, 64), (10, 64)]
    first, kept, _, last = report.layers
    zeros = 1 - dense[0].weight.count_nonzero().item() / (128 * 64)
    assert first.sparsity == pytest.approx(zeros) and last.sparsity is None and last.tuned is None
    assert (first.dense_bytes, first.bytes) == (128 * 64 * 4, model[0].packed.numel())
    assert kept.bytes == kept.dense_bytes == 64 * 128 * 4 and last.bytes == last.dense_bytes == 10 * 64 * 4
    assert report.bytes == sum(layer.bytes for layer in report.layers)
    assert report.dense_bytes == 4 * (2 * 128 * 64 + 64 * 64 + 640)
    assert report.tuned_file == file.path
    choices = {name: {c.tokens: c for c in file[name].choices} for name in ("0.weight", "3.weight")}
    dense_us = sum(choices[name][16].dense_us for name in choices)
    assert report.gain(16) == pytest.approx(dense_us / sum(choices[name][16].median_us for name in choices))
    assert report.gain(7) is None and set(first.gains) == {1, 16}
    lines = str(report).splitlines()
    assert len(lines) == 5 and lines[4].startswith("2 of 4 linear layers became sparse; ")
    assert re.match(rf"0 +128 x 64 +{100 * zeros:.1f} % +\d+\.\d\dx, \d+\.\d\dx +32\.8 kB -> \S+ kB +1: \w+ \(predicted\), "
                    r"16: \w+ \(predicted\)$", lines[0])
    assert lines[1].endswith("dense: not selected") and lines[3].endswith("dense: not in the tuned file")


def test_weights_of_a_file_that_stay_dense(tmp_path):
    model = nn.Sequential(sparse_linear(64, 64))
    sparsmith.tune(model, tmp_path / "tuned.safetensors", **{**tuning_options(), "memory": "1x"})
    before = state_of(model)
    report = sparsmith.patch_model(model, tmp_path / "tuned.safetensors")
    assert unchanged(model, before) and "memory bound" in report.layers[0].reason
    assert report.bytes == report.dense_bytes and report.gain(1) is None


@pytest.mark.parametrize(("change", "reason"), [
    (lambda layer: nn.Linear(65, 128), "the tuned weight has 64 input features, the layer 65"),
    (lambda layer: nn.Linear(64, 127), "the tuned weight has 128 output features, the layer 127"),
    (lambda layer: layer.half(), "the tuned weight is torch.float32, the layer torch.float16"),
])
def test_weights_that_do_not_fit(tuned, change, reason):
    model = copy.deepcopy(tuned[0])
    model[0] = change(model[0])
    report = sparsmith.patch_model(model, tuned[1])
    layer = report.layers[0]
    assert layer.reason == reason and names(report) == ["2", "3"] and type(model[0]) is nn.Linear
    assert layer.shape == tuple(model[0].weight.shape)
    assert layer.bytes == layer.dense_bytes == model[0].weight.numel() * model[0].weight.element_size()


def test_weights_tuned_with_more_than_a_product(tmp_path):
    layer = sparse_linear(64, 64)
    for epilogue, bias, reason in [("bias", False, "it was tuned with a bias, and the layer has none"),
                                   ("bias,relu", True, "it was tuned with relu, which the model is not known to compute there"),
                                   ("residual", True, "it was tuned with a residual")]:
        path = tmp_path / f"{epilogue}.safetensors"
        sparsmith.tune(nn.Sequential(layer), path, **{**tuning_options(), "arguments": ["--candidates", "1", "--epilogue",
                                                                                       epilogue]})
        model = nn.Sequential(nn.Linear(64, 64, bias=bias))
        assert [line.reason for line in sparsmith.patch_model(model, path).layers] == [reason]
    model = nn.Sequential(copy.deepcopy(layer))
    assert names(sparsmith.patch_model(model, tmp_path / "bias.safetensors")) == ["0"]
    agree(model, layer, torch.randn(3, 64))


def test_file_of_another_model(tuned):
    model = nn.ModuleDict({"a": sparse_linear(64, 64), "b": nn.ReLU()})
    before = state_of(model)
    with pytest.raises(SparsmithError, match=r"has no weight of this model: it has 0\.weight, .* layers are a$"):
        sparsmith.patch_model(model, tuned[1])
    assert unchanged(model, before)
    with pytest.raises(SparsmithError, match="layers are not linear"):
        sparsmith.patch_model(nn.Sequential(nn.ReLU()), tuned[1])


def test_model_that_is_a_layer(tuned):
    layer = sparse_linear(64, 64)
    with pytest.raises(SparsmithError, match="itself a linear layer"):
        sparsmith.patch_model(layer, tuned[1])
    assert not list(layer.children())


def test_second_patch(tuned):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1], include="0")
    first = model[0]
    assert names(sparsmith.patch_model(model, tuned[1])) == ["2", "3"]
    assert model[0] is first
    assert sparsmith.patch_model(model, tuned[1]).layers == []
    agree(model, tuned[0], torch.randn(2, 64))
    with pytest.raises(SparsmithError, match="no linear layer to tune"):
        sparsmith.optimize(model, **tuning_options())


def test_modes_are_kept(tuned):
    model = copy.deepcopy(tuned[0]).train()
    model[2].eval()
    sparsmith.patch_model(model, tuned[1])
    assert [module.training for module in model] == [True, True, False, True]
    sparsmith.unpatch_model(model)
    assert [module.training for module in model] == [True, True, False, True]


@pytest.mark.parametrize("trained", [True, False])
def test_gradients_are_kept(tuned, trained):
    model = copy.deepcopy(tuned[0]).requires_grad_(trained)
    sparsmith.patch_model(model, tuned[1])
    assert [name for name, _ in model.named_parameters()] == ["0.bias", "2.bias", "3.bias"]
    assert all(parameter.requires_grad is trained for parameter in model.parameters())
    x = torch.randn(3, 64, requires_grad=True)
    model(x).square().sum().backward()
    got, x.grad = x.grad, None
    reference = copy.deepcopy(tuned[0]).requires_grad_(trained)
    reference(x).square().sum().backward()
    torch.testing.assert_close(got, x.grad, atol=1e-4, rtol=1e-4)
    if trained:
        torch.testing.assert_close(model[0].bias.grad, reference[0].bias.grad, atol=1e-4, rtol=1e-4)
    sparsmith.unpatch_model(model)
    assert all(parameter.requires_grad is trained for parameter in model.parameters()) and len(list(model.parameters())) == 6


def test_unpatch(tuned):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1])
    assert sparsmith.unpatch_model(model) == 3
    assert [type(m) for m in model] == [nn.Linear, nn.ReLU, nn.Linear, nn.Linear]
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in tuned[0].state_dict().items())
    assert sparsmith.unpatch_model(model) == 0


# --- optimize


def test_optimize(tmp_path):
    model = sparse_model()
    with torch.no_grad():
        model[3].weight.copy_(torch.randn(64, 64))
    dense = copy.deepcopy(model)
    report = sparsmith.optimize(model, exclude="2", output=tmp_path / "kept.safetensors", **tuning_options())
    reasons = {layer.name: layer.reason for layer in report.layers}
    assert names(report) == ["0"] and reasons["2"] == "not selected" and "0.0 % of it is zero" in reasons["3"]
    assert report.tuned_file == str(tmp_path / "kept.safetensors")
    agree(model, dense, torch.randn(4, 64))
    other = copy.deepcopy(dense)
    sparsmith.patch_model(other, tmp_path / "kept.safetensors")
    agree(other, dense, torch.randn(4, 64))


def test_optimize_without_zeros():
    model = nn.Sequential(nn.Linear(64, 64))
    before = state_of(model)
    with pytest.raises(SparsmithError, match="enough zeros"):
        sparsmith.optimize(model, **tuning_options())
    assert unchanged(model, before)
    with pytest.raises(SparsmithError, match="no linear layer"):
        sparsmith.optimize(nn.Sequential(nn.ReLU()), **tuning_options())
    with pytest.raises(SparsmithError, match="no linear layer"):
        sparsmith.optimize(model, include="nothing", **tuning_options())


def test_tune_options(tmp_path):
    model = sparse_model()
    report = sparsmith.tune(model, tmp_path / "a", include=["[02].weight"], exclude=["2*"], **tuning_options())
    assert [weight["name"] for weight in report["weights"]] == ["0.weight"]
    assert [choice["tokens"] for choice in report["weights"][0]["choices"]] == [1, 16]
    report = sparsmith.tune(model, tmp_path / "b", layers={"x": model[0]}, **tuning_options())
    assert [weight["name"] for weight in report["weights"]] == ["x.weight"]
    with pytest.raises(SparsmithError, match="enough zeros"):
        sparsmith.tune(model, tmp_path / "c", min_sparsity=0.99, **tuning_options())
    with pytest.raises(SparsmithError, match="not torch.float64"):
        sparsmith.tune(sparse_model().double(), tmp_path / "d", **tuning_options())
    with pytest.raises(SparsmithError, match="failed"):
        sparsmith.tune(model, tmp_path / "e", **{**tuning_options(), "memory": "many"})
    with pytest.raises(SparsmithError, match="--memory 100 cannot be met: the smallest choices take [0-9]+ bytes"):
        sparsmith.tune(model, tmp_path / "e", **{**tuning_options(), "memory": "100B"})
    sparsmith.tuning.write_weights(tmp_path / "w.safetensors", {"w": model[0].weight})
    report = sparsmith.tune(tmp_path / "w.safetensors", tmp_path / "f", **tuning_options())
    assert [weight["name"] for weight in report["weights"]] == ["w.weight"]
    again = sparsmith.tune(model, tmp_path / "a", include=["0.weight"], **tuning_options())
    assert again["weights"][0]["choices"][0]["cached"]


def test_no_compiler(no_compiler, dense_warning, tmp_path):
    model = sparse_model()
    before = state_of(model)
    for _ in range(2):
        report = sparsmith.optimize(model, exclude="2", output=tmp_path / "tuned", **tuning_options())
        assert unchanged(model, before) and report.tuned_file == "" and not (tmp_path / "tuned").exists()
        reason = "NVRTC, which compiles kernels, is missing: pip install nvidia-cuda-nvrtc"
        assert [layer.reason for layer in report.layers] == [reason, "not selected", reason]
    with pytest.raises(SparsmithError, match="NVRTC"):
        sparsmith.tune(model, tmp_path / "tuned", **tuning_options())


def without_kernels(model, file):
    before = state_of(model)
    for dry_run in (True, False):
        report = sparsmith.patch_model(model, file, dry_run=dry_run)
        assert unchanged(model, before) and report.bytes == report.dense_bytes
        assert all("no kernels for this GPU, sm_" in layer.reason and "NVRTC" in layer.reason for layer in report.layers)


def test_no_kernels(tuned, monkeypatch, dense_warning):
    monkeypatch.setattr(sparsmith.TunedFile, "runs_on", lambda file, device: False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    without_kernels(copy.deepcopy(tuned[0]), tuned[1])


@pytest.mark.gpu
def test_no_kernels_on_a_gpu(gpu, dense_warning, tmp_path):
    other = "sm_80" if torch.cuda.get_device_capability()[0] != 8 else "sm_90"
    model = sparse_model().to(gpu)
    sparsmith.tune(model, tmp_path / "tuned", **{**TUNE, "device": "none", "arguments": ["--arch", other]})
    without_kernels(model, tmp_path / "tuned")


# --- masks of torch.nn.utils.prune


def masked_model():
    model = sparse_model()
    for index in (0, 2):
        nn.init.normal_(model[index].weight)
        torch_prune.random_unstructured(model[index], "weight", 0.8)
    return model


def test_masks():
    model = masked_model()
    dense = copy.deepcopy(sparse_model())
    with torch.no_grad():
        for index in (0, 2):
            dense[index].weight.copy_(model[index].weight_orig * model[index].weight_mask)
            dense[index].bias.copy_(model[index].bias)
    assert (model[0].weight_orig != 0).all()
    report = sparsmith.optimize(model, **tuning_options())
    assert names(report) == ["0", "2", "3"] and type(model[0]) is SparseLinear
    assert report.layers[0].sparsity == pytest.approx(0.8, abs=1e-3)
    assert torch.equal(model[0].to_dense(), dense[0].weight)
    agree(model, dense, torch.randn(3, 64))
    assert not model[0]._forward_pre_hooks
    sparsmith.unpatch_model(model)
    assert torch.equal(model[0].weight, dense[0].weight) and isinstance(model[0].weight, nn.Parameter)
    assert not hasattr(model[0], "weight_orig") and model[0].weight.requires_grad


def test_masks_in_a_dry_run(tuned):
    model = masked_model()
    before = state_of(model)
    report = sparsmith.patch_model(model, tuned[1], dry_run=True)
    assert names(report) == ["0", "2", "3"] and unchanged(model, before)
    assert "weight_orig" in dict(model[0].named_parameters())


def test_masks_of_a_model_that_changed_its_type(tuned):
    model = masked_model().half()  # `weight` is fp32 until the next forward, weight_orig is fp16
    assert model[0].weight.dtype == torch.float32
    report = sparsmith.patch_model(model, tuned[1], dry_run=True)
    assert [layer.reason for layer in report.layers] == ["the tuned weight is torch.float32, the layer torch.float16"] * 3
    sparsmith.optimize(model, include="0", **tuning_options())
    assert model[0].dtype == torch.float16


# --- modules of PyTorch that need care


def test_one_layer_at_two_places(tuned):
    dense = copy.deepcopy(tuned[0])
    dense = nn.Sequential(*dense, dense[3], nn.Sequential(dense[3]))
    model = copy.deepcopy(dense)
    report = sparsmith.patch_model(model, tuned[1])
    assert names(report) == ["0", "2", "3"] and type(model[3]) is SparseLinear
    assert model[4] is model[3] and model[5][0] is model[3]
    agree(model, dense, torch.randn(2, 64))
    assert sparsmith.unpatch_model(model) == 3
    assert type(model[3]) is nn.Linear and model[4] is model[3] and model[5][0] is model[3]
    agree(model, dense, torch.randn(2, 64))


def test_file_that_names_the_second_place(tmp_path):
    layer = sparse_linear(64, 64)
    model = nn.ModuleDict({"first": layer, "second": layer})
    sparsmith.tune(model, tmp_path / "tuned", layers={"second": layer}, **tuning_options())
    assert names(sparsmith.patch_model(model, tmp_path / "tuned")) == ["first"]
    assert model["second"] is model["first"] and type(model["first"]) is SparseLinear


def test_one_weight_of_two_layers():
    model = nn.Sequential(sparse_linear(64, 64), sparse_linear(64, 64))
    model[1].weight = model[0].weight
    dense = copy.deepcopy(model)
    assert names(sparsmith.optimize(model, **tuning_options())) == ["0", "1"]
    agree(model, dense, torch.randn(2, 64))


def test_weight_of_an_embedding():
    model = nn.Sequential(nn.Embedding(96, 64), sparse_linear(64, 64), nn.Linear(64, 96))
    pruned_(model[0].weight, 0.8)
    model[2].weight = model[0].weight
    before = model[2]
    report = sparsmith.optimize(model, **tuning_options())
    assert [layer.reason for layer in report.layers] == ["", "its weight is 0.weight, too"]
    assert model[2] is before and model[2].weight is model[0].weight


def test_linear_layers_with_a_forward_of_their_own(tuned):
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    dense = copy.deepcopy(tuned[0])
    dense[3] = Doubled(64, 64)
    model = copy.deepcopy(dense)
    assert names(sparsmith.patch_model(model, tuned[1])) == ["0", "2"]
    agree(model, dense, torch.randn(2, 64))


@pytest.mark.filterwarnings("ignore:.*nested tensor")
@pytest.mark.parametrize("compiled", [False, True])
def test_transformer_encoder(compiled):
    """Its fast paths read the weights of the layers."""
    if compiled and linear._OLD_COMPILER:
        pytest.skip("torch.compile before 2.9 takes the fast path")
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    dense = nn.TransformerEncoder(layer, 1).eval()
    sparsmith.prune.magnitude_(dense, 0.8)
    model = copy.deepcopy(dense)
    report = sparsmith.optimize(model, **tuning_options())
    assert names(report) == ["layers.0.linear1", "layers.0.linear2"]
    x, padding = torch.randn(3, 5, 64), torch.arange(5) >= torch.tensor([[5], [4], [3]])
    agree(torch.compile(model, backend="aot_eager") if compiled else model, dense, x)
    with torch.no_grad():
        got, expected = model(x, src_key_padding_mask=padding), dense(x, src_key_padding_mask=padding)
    torch.testing.assert_close(got[~padding], expected[~padding], atol=1e-4, rtol=1e-4)


def test_the_weight_answers_but_does_not_compute(tuned):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1])
    weight = model[0].weight
    assert (weight.shape, weight.dtype, weight.device.type) == ((128, 64), torch.float32, "cpu")
    assert weight.numel() == 128 * 64 and weight.size(0) == 128 and weight.is_floating_point()
    for use in (lambda: nn.functional.linear(torch.randn(1, 64), weight), lambda: weight + 1, lambda: weight.data.sum(),
                weight.tolist, lambda: torch.cat([weight, weight])):
        with pytest.raises(SparsmithError, match="to_dense"):
            use()

    class ReadsType(nn.Module):  # as the feed-forward layers of T5
        def __init__(self, layer):
            super().__init__()
            self.wo = layer

        def forward(self, x):
            if isinstance(self.wo.weight, torch.Tensor) and x.dtype != self.wo.weight.dtype:
                x = x.to(self.wo.weight.dtype)
            return self.wo(x)

    agree(torch.compile(ReadsType(model[0]), fullgraph=True, backend="aot_eager"), tuned[0][0], torch.randn(2, 64))


# --- moves, copies, files


def test_types(tuned):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1])
    with torch.no_grad():
        model[0].bias.add_(1e-6)
    bias = model[0].bias.detach().clone()
    model(torch.randn(2, 64)).sum().backward()
    model.to(torch.bfloat16)
    assert model[0].weight.dtype == torch.float32 and torch.equal(model[0].bias, bias)  # not rounded
    assert model[0].bias.grad.dtype == torch.float32
    with torch.no_grad(), pytest.raises(RuntimeError, match="x must be fp32"):
        model(torch.randn(2, 64, dtype=torch.bfloat16))


def test_copies_and_state(tuned):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1])
    x = torch.randn(3, 64)
    agree(copy.deepcopy(model), model, x)
    agree(pickle.loads(pickle.dumps(model)), model, x)
    fresh = copy.deepcopy(tuned[0])
    sparsmith.patch_model(fresh, tuned[1])
    for tensor in [*fresh.parameters(), *(buffer for name, buffer in fresh.named_buffers() if "packed" in name)]:
        tensor.detach().zero_()
    fresh.load_state_dict(model.state_dict())
    agree(fresh, tuned[0], x)
    with pytest.raises(RuntimeError, match="Missing key"):
        copy.deepcopy(tuned[0]).load_state_dict(model.state_dict())


def test_another_process(tuned, tmp_path):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1])
    x = torch.randn(3, 64)
    torch.save((model, x), tmp_path / "model.pt")
    code = f"""
import torch
model, x = torch.load({str(tmp_path / "model.pt")!r}, weights_only=False)
with torch.no_grad():
    torch.save(model(x), {str(tmp_path / "y.pt")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with torch.no_grad():
        assert torch.equal(torch.load(tmp_path / "y.pt"), model(x))


def test_copies_do_not_read_the_file(tuned, monkeypatch):
    model = copy.deepcopy(tuned[0])
    sparsmith.patch_model(model, tuned[1])
    monkeypatch.setattr(sparsmith.linear, "load", lambda path: pytest.fail("read the file"))
    copy.deepcopy(model)
