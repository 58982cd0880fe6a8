"""Hugging Face folders of sparse models, and LoRA on top of sparse layers."""

import copy
import json
import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch import nn

import sparsmith
from sparsmith import SparseGroupMember, SparseLinear, SparsmithError

transformers = pytest.importorskip("transformers", minversion="5")
safetensors = pytest.importorskip("safetensors.torch")

import sparsmith.hf

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 48,
         "max_position_embeddings": 32}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_key_value_heads=2))


def qwen2():
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=48,
                                                                n_positions=32))


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))


MODELS = [llama, qwen2, gpt2, bert]
TIED = {llama: set(), qwen2: set(), gpt2: set(), bert: {"cls.predictions.decoder"}}  # sparse layers with tied weights


@pytest.fixture(scope="session")
def pruned(tmp_path_factory):
    """A function that makes a pruned dense model, and its tuned file."""
    made = {}

    def make(kind, fuse=True):
        if (kind, fuse) not in made:
            model = kind().eval()
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):
                    nn.init.normal_(parameter, std=0.5)
            sparsmith.prune.magnitude_(model, 0.9)
            path = tmp_path_factory.mktemp("tuned") / f"{kind.__name__}{fuse}.tuned.safetensors"
            sparsmith.optimize(copy.deepcopy(model), tokens=(1, 16), memory="16x", device="emulator", progress=False,
                               output=path, fuse=fuse, arguments=["--candidates", "2"])
            made[kind, fuse] = model, path
        model, path = made[kind, fuse]
        return copy.deepcopy(model), path

    return make


@pytest.fixture
def patched(pruned):
    """A function that makes the pruned dense model, and a sparse copy."""

    def make(kind, fuse=True, **options):
        model, path = pruned(kind, fuse)
        sparse = copy.deepcopy(model)
        report = sparsmith.patch_model(sparse, path, **options)
        assert len(report.patched) >= 8 or options, str(report)
        return model, sparse

    return make


def sparse_names(model):
    return {name for name, module in model.named_modules(remove_duplicate=False)
            if isinstance(module, (SparseLinear, SparseGroupMember))}


def logits(model, ids):
    with torch.no_grad():
        return model(ids.to(model.device)).logits.cpu()


def tokens():
    return torch.randint(0, 48, (2, 7))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=2e-5)


def load(folder, kind=None, **options):
    model, info = (kind or transformers.AutoModelForCausalLM).from_pretrained(folder, output_loading_info=True, **options)
    assert not info["missing_keys"] and not info["unexpected_keys"], info
    return model


def loader(kind):
    return transformers.AutoModelForMaskedLM if kind is bert else transformers.AutoModelForCausalLM


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_round_trip(patched, tmp_path, kind, dense):
    model, sparse = patched(kind)
    ids = tokens()
    close(logits(sparse, ids), logits(model, ids))
    sparsmith.hf.save_pretrained(sparse, tmp_path, dense=dense)
    loaded = load(tmp_path, loader(kind))
    assert sparse_names(loaded) == sparse_names(sparse) - TIED[kind] and len(sparse_names(loaded)) >= 8
    close(logits(loaded, ids), logits(sparse, ids))
    assert not loaded.training and not any(module.training for module in loaded.modules())
    assert all(tensor.device.type == "cpu" for tensor in [*loaded.parameters(), *loaded.buffers()])
    for name in sparse_names(loaded):
        layer = loaded.get_submodule(name)
        assert torch.equal(layer.to_dense(), sparse.get_submodule(name).to_dense())
        assert layer.weight.shape == layer.to_dense().shape
        assert not any(parameter.ndim > 1 for parameter in layer.parameters())
    assert not list(tmp_path.glob(".sparsmith-*"))


@pytest.mark.parametrize("kind", MODELS)
def test_checkpoint_is_that_of_the_dense_model(patched, tmp_path, kind):
    model, sparse = patched(kind)
    model.save_pretrained(tmp_path / "dense")
    sparsmith.hf.save_pretrained(sparse, tmp_path / "sparse")
    expected = safetensors.load_file(tmp_path / "dense" / "model.safetensors")
    saved = safetensors.load_file(tmp_path / "sparse" / "model.safetensors")
    assert saved.keys() == expected.keys()
    for name, tensor in saved.items():
        assert torch.equal(tensor, expected[name]), name


def test_dense_weights_of_the_folder_are_not_read(patched, tmp_path):
    _, sparse = patched(llama)
    sparse.save_pretrained(tmp_path)
    state = safetensors.load_file(tmp_path / "model.safetensors")
    for name in sparse_names(sparse):
        state[name + ".weight"].fill_(float("nan"))
    safetensors.save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    ids = tokens()
    assert torch.equal(logits(load(tmp_path), ids), logits(sparse, ids))


@pytest.mark.parametrize("kind", [qwen2, gpt2])
def test_plain_save_of_patched_and_loaded_models(patched, tmp_path, kind):
    _, sparse = patched(kind)
    sparse.save_pretrained(tmp_path / "one")
    assert not hasattr(sparse.config, "quantization_config")
    first = load(tmp_path / "one")
    first.save_pretrained(tmp_path / "two", max_shard_size="20KB")
    assert len(list((tmp_path / "two").glob("model-*.safetensors"))) > 1
    pickled = pickle.loads(pickle.dumps(copy.deepcopy(first)))
    (tmp_path / "one" / "model.safetensors").unlink()
    second = load(tmp_path / "two")
    second.save_pretrained(tmp_path / "two")  # onto itself
    ids = tokens()
    for model in (first, second, load(tmp_path / "two"), pickled):
        assert torch.equal(logits(model, ids), logits(sparse, ids))
    pickled.save_pretrained(tmp_path / "three")  # the method of the class: it names the tuned file of the first folder
    assert torch.equal(logits(load(tmp_path / "three"), ids), logits(sparse, ids))


def test_temporary_tuned_file(pruned, tmp_path):
    model, _ = pruned(llama)
    sparsmith.optimize(model, tokens=(1,), memory="16x", device="emulator", progress=False, include="mlp.down",
                       arguments=["--candidates", "1"])
    model.save_pretrained(tmp_path)
    assert sparse_names(load(tmp_path)) == {f"model.layers.{layer}.mlp.down_proj" for layer in range(2)}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(tmp_path, dtype):
    model = transformers.AutoModelForCausalLM.from_config(llama().config, dtype=dtype).eval()
    sparsmith.prune.magnitude_(model, 0.9)
    sparse = copy.deepcopy(model)
    sparsmith.optimize(sparse, tokens=(1,), memory="16x", device="emulator", progress=False, include="mlp",
                       arguments=["--candidates", "1"])
    assert sparse_names(sparse)
    for dense in (True, False):
        sparsmith.hf.save_pretrained(sparse, tmp_path / str(dense), dense=dense)
        loaded = load(tmp_path / str(dense))
        ids = tokens()
        assert loaded.dtype == dtype and sparse_names(loaded) == sparse_names(sparse)
        assert torch.equal(logits(loaded, ids), logits(sparse, ids))
    torch.testing.assert_close(logits(loaded, ids), logits(model, ids), atol=5e-2, rtol=5e-2)


def test_base_models(patched, tmp_path):
    model, sparse = patched(llama)
    sparse.save_pretrained(tmp_path / "whole")
    base = transformers.AutoModel.from_pretrained(tmp_path / "whole")
    ids = tokens()
    with torch.no_grad():
        close(base(ids).last_hidden_state, model.model(ids).last_hidden_state)
    assert len(sparse_names(base)) == 14
    base.save_pretrained(tmp_path / "base")
    assert {name.split(".")[0] for name in sparse_names(load(tmp_path / "base", transformers.AutoModel))} == {"layers"}
    whole, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", output_loading_info=True)
    assert info["missing_keys"] == {"lm_head.weight"} and not info["unexpected_keys"] and len(sparse_names(whole)) == 14


SCRIPT = """
import sys, torch, transformers
if sys.argv[2] == "sparsmith": import sparsmith
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])
print(sum("Sparse" in type(module).__name__ for module in model.modules()))
torch.save(model(torch.arange(12).reshape(2, 6)).logits.detach(), sys.argv[1] + "/logits.pt")
"""


def run(folder, with_import):
    return subprocess.run([sys.executable, "-c", SCRIPT, folder, with_import], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("with_import", ["sparsmith", "nothing"])
def test_loads_dense_without_the_import(patched, tmp_path, with_import):
    model, sparse = patched(qwen2)
    sparse.save_pretrained(tmp_path)
    done = run(tmp_path, with_import)
    assert done.returncode == 0 and done.stdout.strip() == "0", done.stderr
    assert "Unknown quantization type, got sparsmith" in done.stderr
    close(torch.load(tmp_path / "logits.pt"), logits(model, torch.arange(12).reshape(2, 6)))


def test_fails_without_the_import_and_dense_weights(patched, tmp_path):
    _, sparse = patched(llama)
    sparsmith.hf.save_pretrained(sparse, tmp_path, dense=False)
    done = run(tmp_path, "nothing")
    assert done.returncode != 0 and "ignore_mismatched_sizes" in done.stderr, done.stderr
    assert os.path.getsize(tmp_path / "model.safetensors") < 40_000  # embeddings, head and norms


def test_modules_that_stay_dense(patched, pruned, tmp_path):
    model, path = pruned(llama)
    down = {f"model.layers.{layer}.mlp.down_proj" for layer in range(2)}
    _, sparse = patched(llama, include="down_proj|self_attn", exclude="1.mlp")
    sparse.save_pretrained(tmp_path)
    assert sparse_names(load(tmp_path)) == sparse_names(sparse)
    assert "model.layers.1.mlp.down_proj" in json.loads(
        (tmp_path / "config.json").read_text())["quantization_config"]["modules_to_not_convert"]

    model.save_pretrained(tmp_path / "dense")
    config = sparsmith.hf.SparsmithConfig(path, modules_to_not_convert=["self_attn", "up_proj"])
    loaded = load(tmp_path / "dense", quantization_config=config)
    # The attention's layers match nothing: a name is a prefix or the end of a layer's. A group stays dense whole.
    assert {name for name in sparse_names(loaded) if "mlp" in name} == down
    ids = tokens()
    close(logits(loaded, ids), logits(model, ids))
    loaded.save_pretrained(tmp_path / "again")
    assert sparse_names(load(tmp_path / "again")) == sparse_names(loaded)


def test_output_embeddings(pruned, tmp_path):
    """An untied head is sparse if the model says so. By default, it is dense."""
    model, _ = pruned(llama)
    sparsmith.prune.magnitude_(model, 0.9, filter_fn=lambda _, name: name == "lm_head")
    path = tmp_path / "head.tuned.safetensors"
    model.save_pretrained(tmp_path / "dense")
    ids = tokens()
    before = logits(model, ids)
    sparsmith.optimize(model, tokens=(1,), memory="16x", device="emulator", progress=False, include="lm_head",
                       output=path, arguments=["--candidates", "1"])
    assert sparse_names(model) == {"lm_head"}
    model.save_pretrained(tmp_path / "sparse")
    loaded = load(tmp_path / "sparse")
    assert sparse_names(loaded) == {"lm_head"}
    close(logits(loaded, ids), before)
    assert not sparse_names(load(tmp_path / "dense", quantization_config=sparsmith.hf.SparsmithConfig(path)))


def test_a_tied_head_stays_dense(pruned, tmp_path):
    model, _ = pruned(qwen2)
    sparsmith.prune.magnitude_(model, 0.9, filter_fn=lambda _, name: name == "lm_head")
    with pytest.raises(sparsmith.SparsmithError, match="no linear layer to tune"):
        sparsmith.optimize(model, tokens=(1,), device="emulator", progress=False, include="lm_head")


def test_device_map(patched, tmp_path, device):
    model, sparse = patched(qwen2)
    sparsmith.hf.save_pretrained(sparse, tmp_path, dense=False)
    ids = tokens()
    for device_map in (device, {"": device}):
        loaded = load(tmp_path, device_map=device_map)
        assert {tensor.device.type for tensor in [*loaded.parameters(), *loaded.buffers()]} == {device}
        torch.testing.assert_close(logits(loaded, ids), logits(model, ids), atol=1e-3, rtol=1e-3)


def test_no_kernels_for_the_gpu(patched, tmp_path, monkeypatch, dense_warning):
    model, sparse = patched(qwen2)
    sparse.save_pretrained(tmp_path)
    monkeypatch.setattr(sparsmith.TunedFile, "runs_on", lambda file, device: False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    loaded = load(tmp_path, device_map="cpu")
    assert not sparse_names(loaded)
    close(logits(loaded, ids := tokens()), logits(model, ids))
    loaded.save_pretrained(tmp_path / "again")
    assert "quantization_config" not in (tmp_path / "again" / "config.json").read_text()


def test_dense_again(patched, tmp_path):
    model, sparse = patched(gpt2)
    sparse.save_pretrained(tmp_path / "sparse")
    ids = tokens()
    for index, make_dense in enumerate([lambda loaded: loaded.dequantize(), sparsmith.unpatch_model]):
        loaded = load(tmp_path / "sparse")
        make_dense(loaded)
        assert not sparse_names(loaded)
        close(logits(loaded, ids), logits(model, ids))
        loaded.save_pretrained(tmp_path / str(index))
        assert "quantization_config" not in (tmp_path / str(index) / "config.json").read_text()
        assert not list((tmp_path / str(index)).glob("*.tuned.safetensors"))
        close(logits(load(tmp_path / str(index)), ids), logits(model, ids))


def test_generates_and_compiles(patched, tmp_path):
    model, sparse = patched(llama)
    sparse.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    ids = tokens()
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(loaded.generate(ids, **options), model.generate(ids, **options))
    with torch.no_grad():
        compiled = torch.compile(lambda ids: loaded(ids, use_cache=False).logits, fullgraph=True, backend="aot_eager")
        close(compiled(ids), logits(model, ids))


def test_errors(patched, pruned, tmp_path):
    model, sparse = patched(llama)
    with pytest.raises(SparsmithError, match="no.* sparse layers"):
        sparsmith.hf.save_pretrained(model, tmp_path)
    with pytest.raises(SparsmithError, match="push_to_hub"):
        sparse.save_pretrained(tmp_path, push_to_hub=True)
    sparse.save_pretrained(tmp_path)
    with pytest.raises(SparsmithError, match="float32, the layer torch.float16"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float16)
    with pytest.raises(SparsmithError, match="offloads layers"):
        transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path, device_map={"model.layers.0": "disk", "model": "cpu", "lm_head": "cpu"}, offload_folder=tmp_path)
    loaded = load(tmp_path)
    (tmp_path / "model.tuned.safetensors").rename(tmp_path / "moved")
    with pytest.raises(SparsmithError, match=r"model\.tuned\.safetensors is missing"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    with pytest.raises(SparsmithError, match=r"model\.tuned\.safetensors of the model is missing"):
        loaded.save_pretrained(tmp_path / "other")
    (tmp_path / "model.tuned.safetensors").write_bytes((tmp_path / "moved").read_bytes()[:5000])
    with pytest.raises(SparsmithError, match="model.tuned.safetensors"):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)

    model, path = pruned(llama)
    copied = tmp_path / "copy.tuned.safetensors"
    copied.write_bytes(path.read_bytes())
    sparsmith.patch_model(model, path, include="down_proj")
    sparsmith.patch_model(model, copied, include="o_proj")
    with pytest.raises(SparsmithError, match="2 tuned files"):
        model.save_pretrained(tmp_path / "two")


def test_tuned_file_on_the_hub(patched, tmp_path, monkeypatch):
    """A name that is no folder is looked up in the revision of the configuration."""
    _, sparse = patched(llama)
    sparse.save_pretrained(tmp_path)
    (tmp_path / "model.tuned.safetensors").rename(tmp_path / "moved")
    asked = []

    def cached_file(source, name, revision):
        asked.append((source, name, revision))
        if name != "model.tuned.safetensors":
            raise OSError("no such file")
        return str(tmp_path / "moved")

    monkeypatch.setattr(sparsmith.hf, "cached_file", cached_file)
    config = sparsmith.hf.SparsmithConfig()
    quantizer = sparsmith.hf.SparsmithQuantizer(config)
    sparse.config.name_or_path, sparse.config._commit_hash = "someone/model", "abc"
    assert quantizer._tuned_path(sparse, [str(tmp_path / "model.safetensors")]) == str(tmp_path / "moved")
    assert asked == [("someone/model", "model.tuned.safetensors", "abc")]
    config.tuned_file = "other"
    with pytest.raises(SparsmithError, match="someone/model has no tuned file other"):
        quantizer._tuned_path(sparse, None)


# LoRA

peft = pytest.importorskip("peft")
TARGETS = {llama: ["q_proj", "v_proj", "down_proj"], qwen2: ["q_proj", "k_proj", "up_proj", "o_proj"],
           gpt2: ["c_attn", "c_fc"], bert: ["query", "value", "intermediate.dense"]}


def with_lora(model, kind, **options):
    config = peft.LoraConfig(target_modules=TARGETS[kind], r=4, lora_alpha=8, lora_dropout=0.0, **options)
    torch.manual_seed(1)
    model = peft.get_peft_model(model, sparsmith.hf.register_lora(config))
    torch.manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1)  # zeros at first, which would hide errors of A
    return model


def lora_parameters(model):
    return {name: parameter for name, parameter in model.named_parameters() if "lora_" in name}


@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
@pytest.mark.parametrize("kind", MODELS)
def test_lora_trains_as_on_the_dense_model(patched, kind):
    dense, sparse = (with_lora(model, kind) for model in patched(kind, fuse=False))
    before = {name: tensor.clone() for name, tensor in sparse.state_dict().items()}
    assert lora_parameters(dense).keys() == lora_parameters(sparse).keys() and len(lora_parameters(dense)) >= 8
    ids = tokens()
    for model in (dense, sparse):
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
    for name, parameter in lora_parameters(sparse).items():
        assert parameter.grad.abs().max() > 0 and not torch.equal(parameter, before[name]), name
        torch.testing.assert_close(parameter.grad, lora_parameters(dense)[name].grad, atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(parameter, lora_parameters(dense)[name], atol=1e-5, rtol=1e-3)
    assert all(torch.equal(tensor, before[name]) for name, tensor in sparse.state_dict().items() if "lora_" not in name)
    close(logits(sparse, ids), logits(dense, ids))


def test_adapters_of_loaded_models(patched, tmp_path):
    _, sparse = patched(llama)
    sparse.save_pretrained(tmp_path / "base")
    model = with_lora(load(tmp_path / "base"), llama)
    ids = tokens()
    model.save_pretrained(tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "model.tuned.safetensors").exists()
    config = sparsmith.hf.register_lora(peft.PeftConfig.from_pretrained(tmp_path / "adapter"))
    other = peft.PeftModel.from_pretrained(load(tmp_path / "base"), tmp_path / "adapter", config=config)
    assert torch.equal(logits(other, ids), logits(model, ids))
    with other.disable_adapter():
        assert torch.equal(logits(other, ids), logits(sparse, ids))
    expected = logits(other, ids)
    with pytest.raises(SparsmithError, match="unpatch_model"):
        other.merge_and_unload()
    sparsmith.unpatch_model(other)
    close(logits(other, ids), expected)
    close(logits(other.merge_and_unload(), ids), expected)


def test_adapters_of_transformers(patched, tmp_path):
    """``add_adapter`` of the model itself: ``save_pretrained`` saves the adapter alone."""
    _, sparse = patched(llama)
    sparse.save_pretrained(tmp_path / "base")
    model = load(tmp_path / "base")
    try:
        model.add_adapter(sparsmith.hf.register_lora(peft.LoraConfig(target_modules=TARGETS[llama], r=4)))
    except ValueError as error:
        if "version of PEFT" not in str(error):
            raise
        pytest.skip(str(error))
    model.save_pretrained(tmp_path / "adapter")
    saved = safetensors.load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert len(saved) == 12 and all("lora_" in name for name in saved)
    assert not (tmp_path / "adapter" / "model.tuned.safetensors").exists()


def test_merging_into_conv1d(patched):
    _, sparse = patched(gpt2, fuse=False)
    model = with_lora(sparse, gpt2)
    ids = tokens()
    expected = logits(model, ids)
    sparsmith.unpatch_model(model)
    close(logits(model.merge_and_unload(), ids), expected)


@pytest.mark.parametrize("kind", [qwen2, gpt2])
def test_lora_on_fused_activations(patched, kind):
    _, sparse = patched(kind)
    with pytest.raises(SparsmithError, match="fuse=False"):
        with_lora(sparse, kind)


@pytest.mark.parametrize("options", [{"use_dora": True}, {"init_lora_weights": "pissa"}, {"init_lora_weights": "olora"}])
def test_lora_that_needs_the_weight(patched, options):
    _, sparse = patched(llama)
    with pytest.raises(SparsmithError, match="needs a dense weight"):
        with_lora(sparse, llama, **options)


def test_trainer(patched, tmp_path):
    pytest.importorskip("accelerate")
    _, sparse = patched(llama)
    sparse.save_pretrained(tmp_path / "base")
    data = [{"input_ids": row, "labels": row} for row in torch.randint(0, 48, (4, 7))]
    arguments = transformers.TrainingArguments(tmp_path / "out", max_steps=1, use_cpu=True, report_to=[])
    with pytest.raises(ValueError, match="adapters"):
        transformers.Trainer(load(tmp_path / "base"), arguments, train_dataset=data)
    model = with_lora(load(tmp_path / "base"), llama)
    before = {name: parameter.clone() for name, parameter in lora_parameters(model).items()}
    transformers.Trainer(model, arguments, train_dataset=data).train()
    assert all(not torch.equal(parameter, before[name]) for name, parameter in lora_parameters(model).items())
