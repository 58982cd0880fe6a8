"""patch_model, optimize, unpatch_model and tune, for models of PyTorch and of transformers."""

import copy
import pickle
import re
import subprocess
import sys

import pytest
import torch
from conftest import close, pruned_, sparse_linear
from torch import nn
from torch.nn.utils import prune as torch_prune

import sparsmith
from sparsmith import SparseGroupMember, SparseLinear, SparsmithError, linear

TUNE = {"tokens": (1, 16), "memory": "8x", "progress": False, "arguments": ["--candidates", "1"]}


def tuning_options(device="cpu"):
    return {**TUNE, "device": "cuda:0" if device == "cuda" else "emulator"}


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
                                   ("bias,relu", True, "it was tuned with relu"),
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
    sparsmith.tuning.write_weights(tmp_path / "w.safetensors", {"w": model[0].weight})
    report = sparsmith.tune(tmp_path / "w.safetensors", tmp_path / "f", **tuning_options())
    assert [weight["name"] for weight in report["weights"]] == ["w.weight"]
    again = sparsmith.tune(model, tmp_path / "a", include=["0.weight"], **tuning_options())
    assert again["weights"][0]["choices"][0]["cached"]


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


# --- models of transformers

SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4}
DECODER = {**SIZES, "num_key_value_heads": 2, "tie_word_embeddings": False, "max_position_embeddings": 64}
FAMILIES = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**DECODER, "num_hidden_layers": 2}),
    "llama with biases": ("LlamaConfig", "LlamaForCausalLM", {**DECODER, "attention_bias": True, "mlp_bias": True}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", DECODER),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**DECODER, "head_dim": 16}),
    "mistral": ("MistralConfig", "MistralForCausalLM", DECODER),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {**DECODER, "head_dim": 16, "pad_token_id": 0}),
    "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**DECODER, "head_dim": 16, "pad_token_id": 0}),
    "bert": ("BertConfig", "BertModel", SIZES),
    "roberta": ("RobertaConfig", "RobertaModel", {**SIZES, "pad_token_id": 1}),
}


def with_biases(model):
    """Biases that differ from zero, as those of trained models."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
            elif parameter.ndim == 2:
                parameter.normal_(0, 0.1)
    return model


@pytest.fixture(scope="module")
def families():
    """A function: the pruned dense model of a family, and the sparse one. Tests do not change them."""
    transformers = pytest.importorskip("transformers")
    made = {}

    def make(family, device="cpu"):
        if (family, device) not in made:
            config, model, sizes = FAMILIES[family]
            if not hasattr(transformers, model):
                pytest.skip(f"transformers {transformers.__version__} has no {model}")
            dense = with_biases(getattr(transformers, model)(getattr(transformers, config)(**sizes))).eval().to(device)
            sparsmith.prune.magnitude_(dense, 0.8)
            sparse = copy.deepcopy(dense)
            report = sparsmith.optimize(sparse, **tuning_options(device))
            made[family, device] = (dense, sparse, report)
        return made[family, device]

    return make


@pytest.mark.parametrize("family", FAMILIES)
def test_groups(families, family, device):
    dense, sparse, report = families(family, device)
    ids = torch.randint(0, 64, (2, 7), device=device)
    agree(sparse, dense, ids)
    agree(sparse, dense, ids[:, :1])
    if device == "cuda":
        return  # small layers may be faster dense
    attention = "query+key+value" if family in ("bert", "roberta") else "q_proj+k_proj+v_proj"
    feed_forward = "dense" if family in ("bert", "roberta") else "gate_proj+up_proj"
    layers = dense.config.num_hidden_layers
    assert sum(name.endswith(attention) for name in names(report)) == layers
    assert sum(name.endswith(feed_forward) for name in names(report)) >= layers
    members = [module for module in sparse.modules() if isinstance(module, SparseGroupMember)]
    assert len(members) == layers * (3 if feed_forward == "dense" else 5)
    for name, module in sparse.named_modules():
        if isinstance(module, SparseGroupMember):
            original = dense.get_submodule(name)
            assert torch.equal(module.to_dense(), original.weight) and module.weight.shape == original.weight.shape
            assert (module.bias is None) == (original.bias is None)
            assert original.bias is None or torch.equal(module.bias, original.bias)
            assert not module.training and not module.group.training and module.group._held is None


@pytest.mark.parametrize("family", ["llama", "qwen2", "bert"])
def test_groups_run_once(families, family, monkeypatch):
    dense, sparse, _ = families(family)
    calls = []
    product = sparsmith.SparseGroup.product
    monkeypatch.setattr(sparsmith.SparseGroup, "product", lambda group, x: calls.append(group) or product(group, x))
    agree(sparse, dense, torch.randint(0, 64, (2, 5)))
    assert len(calls) == len(set(calls)) == {"llama": 4, "qwen2": 2, "bert": 1}[family]


@pytest.mark.parametrize("family", ["qwen2", "bert"])
def test_groups_compile(families, family, device):
    dense, sparse, _ = families(family, device)
    torch._dynamo.reset()
    compiled = torch.compile(sparse, fullgraph=True, backend="aot_eager")
    options = {} if family == "bert" else {"use_cache": False}
    for tokens in (5, 9):
        agree(compiled, dense, torch.randint(0, 64, (2, tokens), device=device), **options)


@pytest.mark.parametrize("family", ["qwen2", "bert"])
def test_groups_are_copied_and_saved(families, family):
    dense, sparse, _ = families(family)
    ids = torch.randint(0, 64, (2, 6))
    other = copy.deepcopy(sparse)
    groups = {module.group for module in other.modules() if isinstance(module, SparseGroupMember)}
    assert len(groups) == len({module.group for module in sparse.modules() if isinstance(module, SparseGroupMember)})
    assert not groups & set(sparse.modules())
    agree(other, dense, ids)
    agree(pickle.loads(pickle.dumps(sparse)), dense, ids)
    for group in groups:
        group.packed.zero_()
        if group.bias is not None:
            group.bias.data.zero_()
    other.load_state_dict(sparse.state_dict())
    agree(other, dense, ids)


@pytest.mark.parametrize("family", ["llama with biases", "bert"])
def test_groups_unpatch(families, family):
    dense, sparse, report = families(family)
    model = copy.deepcopy(sparse)
    layers = sum(1 + layer.name.count("+") for layer in report.patched)
    assert sparsmith.unpatch_model(model) == layers
    assert list(model.state_dict()) == list(dense.state_dict())
    assert all(torch.equal(value, dense.state_dict()[name]) for name, value in model.state_dict().items())
    assert [type(module) for module in model.modules()] == [type(module) for module in dense.modules()]


def test_groups_train_inputs(families):
    dense, sparse, _ = families("llama with biases")
    embeds = torch.randn(1, 4, 64, requires_grad=True)
    grads = []
    for model in (copy.deepcopy(sparse), copy.deepcopy(dense)):
        model(inputs_embeds=embeds, use_cache=False).logits.square().mean().backward()
        grads.append(embeds.grad)
        embeds.grad = None
    torch.testing.assert_close(grads[0], grads[1], atol=1e-4, rtol=1e-3)


def test_group_outputs_are_not_stale(families):
    dense, sparse, _ = families("llama with biases")
    layers = [(sparse.model.layers[0].self_attn.get_submodule(name), dense.model.layers[0].self_attn.get_submodule(name))
              for name in ("q_proj", "k_proj", "v_proj")]
    x = torch.randn(2, 64)
    with torch.no_grad():
        close(layers[0][0](x), layers[0][1](x), torch.float32)
        x.mul_(2)
        close(layers[1][0](x), layers[1][1](x), torch.float32)  # another value in the same tensor
        for _ in range(2):
            close(layers[2][0](x), layers[2][1](x), torch.float32)
        y = torch.randn(3, 64)
        for index in (0, 1, 0, 2, 1, 1):
            close(layers[index][0](y), layers[index][1](y), torch.float32)
    layers[0][0](y.requires_grad_())
    with torch.no_grad():
        assert not layers[1][0](y).requires_grad
    assert layers[2][0](y).requires_grad
    with torch.inference_mode():
        z = torch.randn(2, 64)
        for s, d in layers:
            close(s(z), d(z), torch.float32)
        layers[0][0](z)
        z.mul_(2)  # tensors of inference mode do not count their changes
        close(layers[0][0](z), layers[0][1](z), torch.float32)


def test_group_options(families):
    dense, _, _ = families("llama")
    model = copy.deepcopy(dense)
    report = sparsmith.optimize(model, include="layers.0.", exclude="k_proj", **tuning_options())
    assert [name.removeprefix("model.layers.0.") for name in names(report)] == \
        ["self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj+up_proj", "mlp.down_proj"]
    agree(model, dense, torch.randint(0, 64, (2, 7)))
    # One layer that is not selected keeps its group dense.
    _, _, whole = families("llama")
    model = copy.deepcopy(dense)
    report = sparsmith.patch_model(model, whole.tuned_file, exclude=r"layers\.1\.self_attn\.v_proj")
    reasons = {layer.name: layer.reason for layer in report.layers if not layer.patched}
    assert reasons["model.layers.1.self_attn.q_proj+k_proj+v_proj"] == "not selected" and \
        reasons["lm_head"] == "not in the tuned file" and len(reasons) == 2
    agree(model, dense, torch.randint(0, 64, (2, 7)))


def test_groups_of_unknown_models(tmp_path):
    model = nn.ModuleDict({"q": sparse_linear(64, 64), "k": sparse_linear(64, 64), "v": sparse_linear(64, 64)})
    sparsmith.tune(model, tmp_path / "tuned", groups=["qk:q.weight,k.weight"], **tuning_options())
    report = sparsmith.patch_model(model, tmp_path / "tuned")
    assert names(report) == ["v"]
    assert {layer.reason for layer in report.layers if layer.name != "v"} == \
        {"in the group qk, and ModuleDict is not known to call its layers with one input"}


def test_groups_without_enough_zeros():
    transformers = pytest.importorskip("transformers")
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**DECODER)).eval()
    sparsmith.prune.magnitude_(model, 0.8, filter_fn=lambda module, name: "mlp" in name)
    report = sparsmith.optimize(model, **tuning_options())
    reasons = [layer.reason for layer in report.layers if "self_attn" in layer.name]
    assert len(reasons) == 4 and all("fewer zeros than" in reason for reason in reasons)


def test_masked_groups(families):
    dense, _, _ = families("llama")
    model = copy.deepcopy(dense)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            mask = module.weight != 0
            module.weight.data[~mask] = 1.0
            torch_prune.custom_from_mask(module, "weight", mask)
    report = sparsmith.optimize(model, exclude="lm_head", **tuning_options())
    assert "model.layers.0.self_attn.q_proj+k_proj+v_proj" in names(report)
    agree(model, dense, torch.randint(0, 64, (2, 7)))


@pytest.mark.parametrize("fill", [0.8, 0.0])
def test_tied_embeddings(fill):
    transformers = pytest.importorskip("transformers")
    dense = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**DECODER, "tie_word_embeddings": True})).eval()
    assert dense.lm_head.weight is dense.model.embed_tokens.weight
    sparsmith.prune.magnitude_(dense, 0.8)
    pruned_(dense.lm_head.weight, fill)
    model = copy.deepcopy(dense)
    report = sparsmith.optimize(model, **tuning_options())
    assert {layer.name: layer.reason for layer in report.layers}["lm_head"] == "its weight is model.embed_tokens.weight, too"
    assert model.lm_head.weight is model.model.embed_tokens.weight
    model.tie_weights()
    agree(model, dense, torch.randint(0, 64, (2, 7)))


def gpt2(masked=False):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=4, n_embd=64, vocab_size=64, n_positions=32)
    model = with_biases(transformers.GPT2LMHeadModel(config)).eval()
    if masked:
        for name, module in model.named_modules():
            if type(module).__name__ == "Conv1D":
                torch_prune.l1_unstructured(module, "weight", 0.8)
    else:
        sparsmith.prune.magnitude_(model, 0.8)
    return model


@pytest.mark.parametrize("masked", [False, True])
def test_conv1d(masked, device):
    dense = gpt2(masked).to(device)
    ids = torch.randint(0, 64, (2, 7), device=device)
    with torch.no_grad():
        expected = dense(ids).logits
    model = dense if masked else copy.deepcopy(dense)
    before = {name: (module.weight * 1, module.bias * 1) for name, module in model.named_modules()
              if type(module).__name__ == "Conv1D"}
    report = sparsmith.optimize(model, **tuning_options(device))
    shapes = {layer.name.partition(".h.0.")[2]: layer.shape for layer in report.layers}
    assert shapes["attn.c_attn"] == (192, 64) and shapes["mlp.c_fc"] == (256, 64) and shapes["mlp.c_proj"] == (64, 256)
    if device == "cpu":
        assert len(report.patched) == 4 and model.transformer.h[0].attn.c_attn.out_features == 192
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, expected, atol=1e-4, rtol=1e-4)
    assert sparsmith.unpatch_model(model) == len(report.patched)
    for name, (weight, bias) in before.items():
        module = model.get_submodule(name)
        assert type(module).__name__ == "Conv1D" and module.nf == weight.shape[1]
        assert torch.equal(module.weight, weight) and module.weight.is_contiguous() and torch.equal(module.bias, bias)
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, expected, atol=1e-4, rtol=1e-4)


def test_conv1d_in_a_dry_run(tmp_path):
    model = gpt2()
    sparsmith.tune(model.transformer.h[0], tmp_path / "tuned", **tuning_options())
    before = state_of(model.transformer.h[0])
    report = sparsmith.patch_model(model.transformer.h[0], tmp_path / "tuned", dry_run=True)
    assert len(report.patched) == 4 and unchanged(model.transformer.h[0], before)
