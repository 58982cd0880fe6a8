"""patch_model and optimize, for models of transformers: groups, tied weights and Conv1D."""

import contextlib
import copy
import pickle

import pytest
import torch
from conftest import agree, close, names, pruned_, sparse_linear, state_of, tuning_options, unchanged
from torch import nn
from torch.nn.utils import prune as torch_prune

import sparsmith
from sparsmith import SparseGroupMember, SparsmithError
from sparsmith.fusion import FusedActivation, GatedMLP

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


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("family", ["qwen2", "bert"])
def test_groups_are_copied_and_saved(families, family, listed):
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
    state = sparse.state_dict()
    assert sum(key.endswith("group.packed") for key in state) == len(groups)
    storages = [tensor.untyped_storage().data_ptr() for tensor in state.values()]
    assert len(set(storages)) == len(storages)  # safetensors refuses tensors that share memory
    if listed:  # as a module whose children all hold the group lists it
        for name, module in sparse.named_modules():
            if isinstance(module, SparseGroupMember):
                state |= {f"{name}.group.{key}": value for key, value in module.group.state_dict().items()}
        assert len(state) > len(storages)
    other.load_state_dict(state)
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


FUSED = {"llama with biases": "silu+gated", "qwen2": "silu+gated", "gemma": "gelu_tanh+gated", "bert": "gelu",
         "roberta": "gelu"}


@pytest.mark.parametrize("family", FUSED)
def test_fused_activations(families, family):
    dense, sparse, report = families(family)
    fused = {layer.name.rpartition(".")[2]: layer.tuned.fused for layer in report.patched if layer.tuned.fused}
    assert fused == {"gate_proj+up_proj" if "gated" in FUSED[family] else "dense": FUSED[family]}
    assert f"; {FUSED[family]} in the kernels" in str(report)
    kind = GatedMLP if "gated" in FUSED[family] else FusedActivation
    modules = [module for module in sparse.modules() if isinstance(module, kind)]
    assert len(modules) == dense.config.num_hidden_layers
    plain = copy.deepcopy(dense).train(family == "bert")  # and not in training mode
    report = sparsmith.optimize(plain, fuse=None if family == "bert" else False, **tuning_options())
    plain.eval()
    assert not any(layer.tuned and layer.tuned.fused for layer in report.layers)
    assert not any(isinstance(module, (GatedMLP, FusedActivation)) for module in plain.modules())
    agree(plain, dense, torch.randint(0, 64, (2, 7)))


def test_gated_members_have_no_outputs(families):
    mlp = families("llama")[1].model.layers[0].mlp
    with pytest.raises(SparsmithError, match="fuse=False"):
        mlp.up_proj(torch.zeros(1, 64))


def test_other_activations_are_not_fused(families):
    transformers = pytest.importorskip("transformers")
    tuned_file = families("qwen2")[2].tuned_file
    config = transformers.Qwen2Config(**DECODER, hidden_act="quick_gelu")
    dense = with_biases(transformers.Qwen2ForCausalLM(config)).eval()
    report = sparsmith.patch_model(dense, tuned_file, dry_run=True)
    reasons = {layer.name: layer.reason for layer in report.layers}
    assert reasons["model.layers.0.mlp.gate_proj+up_proj"] == \
        "it was tuned with silu+gated, which the model is not known to compute there"
    sparsmith.prune.magnitude_(dense, 0.8)
    sparse = copy.deepcopy(dense)
    report = sparsmith.optimize(sparse, include="mlp", **tuning_options())
    assert len(report.patched) == 2 and not any(layer.tuned.fused for layer in report.patched)
    agree(sparse, dense, torch.randint(0, 64, (2, 7)))


def test_groups_train_inputs(families):
    dense, sparse, _ = families("llama with biases")
    embeds = torch.randn(1, 4, 64, requires_grad=True)
    grads = []
    for model in (copy.deepcopy(sparse), copy.deepcopy(dense)):
        fused = model.model.layers[0].mlp.__class__ is GatedMLP
        with pytest.warns(UserWarning, match="fuse=False") if fused else contextlib.nullcontext():
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
        assert isinstance(model.transformer.h[0].mlp.act, FusedActivation)
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
