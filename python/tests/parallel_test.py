"""Tensor parallelism: ranks with parts of a model together compute what the whole model does."""

import subprocess
import sys

import pytest
import torch
from conftest import device_of
from torch import nn

import sparsmith
from sparsmith import SparseLinear, SparsmithError, parallel

transformers = pytest.importorskip("transformers")

# A rank: patches dense models with its file of each variant, and saves what they compute. Models are on the meta device if
# they have no bias, which a checkpoint would bring.
PROCESS = """
import copy, sys
import torch, torch.distributed as dist, transformers
from torch import nn
import sparsmith, sparsmith.hf
from sparsmith import SparseLinear, SparsmithError
rank, world, folder, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
device = torch.device(kind, rank) if kind == "cuda" else torch.device("cpu")
if kind == "cuda":
    torch.cuda.set_device(device)
file = lambda name, of=rank: f"{folder}/{name}.rank{of}.tuned.safetensors"
try:
    sparsmith.patch_model(nn.Sequential(nn.Linear(40, 33)), file("head"))
except SparsmithError as error:
    assert "rank" in str(error) and "init_process_group" in str(error), error
else:
    raise AssertionError("without a process group")
dist.init_process_group("nccl" if kind == "cuda" else "gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                        world_size=world)
start = torch.load(f"{folder}/start.pt", weights_only=False)
results = {}
dtype = start["dtype"]

def captured(run, x):
    with torch.no_grad():
        run(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        still = x.clone()
        with torch.cuda.graph(graph):
            y = run(still)
        for _ in range(2):
            still.copy_(x)
            graph.replay()
        torch.cuda.synchronize()
    return y

# Llama
model = transformers.LlamaForCausalLM(start["config"]).eval()
model.load_state_dict(start["state"])
model.to(device, dtype)
ids = start["ids"].to(device)
for variant in ("plain", "grouped"):
    sparse = copy.deepcopy(model)
    try:
        sparsmith.patch_model(sparse, file(variant, (rank + 1) % world))
    except SparsmithError as error:
        assert f"for rank {(rank + 1) % world} of {world}" in str(error) and f"is rank {rank} of {world}" in str(error), error
    else:
        raise AssertionError("another rank's file")
    try:
        sparsmith.patch_model(sparse, file(variant), exclude="down_proj")
    except SparsmithError as error:
        assert "cannot stay dense: not selected" in str(error), error
        assert type(sparse.model.layers[0].self_attn.q_proj) is nn.Linear, "the model has changed"
    else:
        raise AssertionError("a split weight stays dense")
    report = sparsmith.patch_model(sparse, file(variant))
    assert len(report.patched) == (15 if variant == "plain" else 9), report
    assert all(layer.tuned.split.rank == rank and layer.shape == layer.tuned.shape for layer in report.patched), report
    with torch.no_grad():
        results[variant] = sparse(ids).logits.float().cpu()
        # with a cache, as in generation
        results[variant + " tokens"] = sparse.generate(ids, max_new_tokens=4, do_sample=False).cpu()
    try:
        sparsmith.unpatch_model(sparse)
    except SparsmithError as error:
        assert "this rank's part" in str(error), error
    else:
        raise AssertionError("unpatched")
    again = copy.deepcopy(sparse)
    assert torch.equal(again(ids).logits, sparse(ids).logits)

loaded = transformers.AutoModelForCausalLM.from_pretrained(
    f"{folder}/llama", quantization_config=sparsmith.hf.SparsmithConfig(file("plain"), modules_to_not_convert=[]))
with torch.no_grad():
    results["from_pretrained"] = loaded.to(device)(ids).logits.float().cpu()
try:
    loaded.save_pretrained(f"{folder}/again")
except SparsmithError as error:
    assert "this rank's part" in str(error), error
else:
    raise AssertionError("saved")

# A chain whose input and output are whole, with a part of the activation between, and gradients.
for name, layers in (("chain", ("0", "2")), ("head", ("0",)), ("tail", ("0",))):
    dense = start[name].to(device, dtype)
    x = start["x"].to(device, dtype, copy=True)
    sparse = copy.deepcopy(dense)
    report = sparsmith.patch_model(sparse, file(name))
    assert len(report.patched) == len(layers), report
    for own, suffix in ((sparse, ""), (torch.compile(sparse, fullgraph=True, backend=start["backend"]), " compiled")):
        with torch.no_grad():
            results[name + suffix] = own(x).float().cpu()
    x.requires_grad_()
    y = sparse(x)
    y.backward(start["gradients"][name].to(y))
    results[name + " x.grad"] = x.grad.float().cpu()
    if kind == "cuda":
        results[name + " captured"] = captured(sparse, x.detach()).float().cpu()
# A layer alone, from a file, with a bias of the whole layer.
head = SparseLinear.from_tuned(sparsmith.load(file("head")), "0.weight", start["head"][0].bias, device)
results["from_tuned"] = head(start["x"].to(device, dtype)).detach().float().cpu()
assert head.out_features == 33 and head.in_features == 40
on_meta = nn.Sequential(nn.Linear(40, 64, bias=False, device="meta", dtype=dtype), nn.ReLU(),
                        nn.Linear(64, 24, bias=False, device="meta", dtype=dtype))
assert len(sparsmith.patch_model(on_meta, file("chain without bias")).patched) == 2
results["on meta"] = on_meta.to(device)(start["x"].to(device, dtype)).float().cpu()
torch.save(results, f"{folder}/results{rank}.pt")
dist.barrier()
dist.destroy_process_group()
"""

ATTENTION = "attention/3:" + ",".join(f"rows=*.{name}_proj.weight" for name in "qkv") + ",columns=*.o_proj.weight"
MLP = "mlp:rows=*.gate_proj.weight,rows=*.up_proj.weight,columns=*.down_proj.weight"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def kind(request):
    if request.param == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("fewer than two GPUs")
    return request.param


def llama():
    """Three key and value heads, which two ranks cannot share equally; biases everywhere."""
    config = transformers.LlamaConfig(hidden_size=96, intermediate_size=160, num_hidden_layers=2, num_attention_heads=6,
                                      num_key_value_heads=3, head_dim=16, vocab_size=100, attention_bias=True, mlp_bias=True,
                                      pad_token_id=0, initializer_range=0.15)
    model = transformers.LlamaForCausalLM(config).eval()
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.normal_(module.bias, std=0.1)
    sparsmith.prune.magnitude_(model, 0.7)
    with torch.no_grad():
        model.lm_head.weight.mul_(torch.rand(100, 96) > 0.7)
    with torch.no_grad():  # weights with uneven rows and columns, so that parts are uneven too
        for layer in model.model.layers:
            layer.mlp.gate_proj.weight[:64] *= torch.rand(64, 96) > 0.6
            layer.mlp.down_proj.weight[:, :64] *= torch.rand(96, 64) > 0.6
    return config, model


def test_ranks_together_are_the_model(kind, tmp_path):
    dtype = torch.float32
    config, model = llama()
    chain = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 24))
    bare = nn.Sequential(nn.Linear(40, 64, bias=False), nn.ReLU(), nn.Linear(64, 24, bias=False))
    head, tail = nn.Sequential(nn.Linear(40, 33)), nn.Sequential(nn.Linear(40, 24))
    for each in (chain, bare, head, tail):
        sparsmith.prune.magnitude_(each, 0.8)
    x = torch.randn(3, 5, 40)
    gradients = {name: torch.randn_like(each(x)) for name, each in (("chain", chain), ("head", head), ("tail", tail))}
    ids = torch.randint(1, 100, (2, 7))
    torch.save({"config": config, "state": model.state_dict(), "ids": ids, "x": x, "chain": chain, "head": head, "tail": tail,
                "gradients": gradients, "dtype": dtype, "backend": "inductor" if kind == "cuda" else "eager"},
               tmp_path / "start.pt")
    model.save_pretrained(tmp_path / "llama")
    options = {"tokens": (1, 16), "memory": "8x", "device": device_of(kind), "progress": False, "tensor_parallel": 2}

    def tune(name, module, splits, *arguments, **more):
        report = sparsmith.tune(module.to(kind), tmp_path / f"{name}.tuned.safetensors", splits=splits,
                                arguments=["--candidates", "1", *arguments], **options, **more)
        module.cpu()
        return report

    head_split = "head:rows=lm_head.weight"
    report = tune("plain", model, [*parallel.default_splits(config, dict(model.named_modules())), head_split])
    assert [file["rank"] for file in report["ranks"]] == [0, 1]
    weights = [weight for weight in model.modules() if isinstance(weight, nn.Linear)]
    assert sum(file["nonzeros"] for file in report["ranks"]) == sum(int(torch.count_nonzero(w.weight)) for w in weights)
    tune("grouped", model, [ATTENTION, MLP, head_split], *(word for epilogue in (
        "*.qkv=bias", "*.gate_up=bias,silu,gated", "*.down_proj.weight=bias") for word in ("--epilogue", epilogue)),
        groups=["qkv:*.q_proj.weight,*.k_proj.weight,*.v_proj.weight", "gate_up:*.gate_proj.weight,*.up_proj.weight"])
    inner = ["inner/4:rows=0.weight,columns=2.weight"]
    tune("chain", chain, inner, "--epilogue", "2.weight=bias")
    tune("chain without bias", bare, inner)
    tune("head", head, ["head/33:rows=0.weight"])
    tune("tail", tail, ["tail/5:columns=0.weight"])
    first = sparsmith.load(report["ranks"][0]["file"])
    assert (first.rank, first.ranks) == (0, 2)
    attention = first["model.layers.0.self_attn.k_proj.weight"]
    assert attention.split.boundaries == (0, 2, 3) or attention.split.boundaries == (0, 1, 3)
    assert attention.shape[0] == 16 * attention.split.units_of(0) and attention.whole_shape == (48, 96)
    assert first["lm_head.weight"].split.whole

    started = [subprocess.Popen([sys.executable, "-c", PROCESS, str(rank), "2", str(tmp_path), kind], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(2)]
    outputs = [process.communicate(timeout=300) for process in started]
    assert all(process.returncode == 0 for process in started), outputs

    with torch.no_grad():
        expected = {"plain": model(ids).logits, "plain tokens": model.generate(ids, max_new_tokens=4, do_sample=False)}
    expected |= {"from_pretrained": expected["plain"], "grouped": expected["plain"], "grouped tokens": expected["plain tokens"]}
    for name, module in (("chain", chain), ("head", head), ("tail", tail)):
        grad_of = x.clone().requires_grad_()
        y = module(grad_of)
        y.backward(gradients[name])
        expected |= {name: y.detach(), f"{name} compiled": y.detach(), f"{name} captured": y.detach(),
                     f"{name} x.grad": grad_of.grad}
    expected |= {"from_tuned": expected["head"], "on meta": bare(x).detach()}
    for rank in range(2):
        results = torch.load(tmp_path / f"results{rank}.pt")
        assert len(results) >= 15
        for name, result in results.items():
            torch.testing.assert_close(result, expected[name].to(result.dtype), atol=2e-4, rtol=2e-4,
                                       msg=lambda text, name=name, rank=rank: f"{name}, rank {rank}: {text}")


def test_splits_of_configurations(tmp_path):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=32))
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    expected = [("self_attn/2:rows=*.self_attn.q_proj.weight,rows=*.self_attn.k_proj.weight,rows=*.self_attn.v_proj.weight,"
                "columns=*.self_attn.o_proj.weight"),
                "mlp:rows=*.mlp.gate_proj.weight,rows=*.mlp.up_proj.weight,columns=*.mlp.down_proj.weight"]
    assert parallel.default_splits(model.config, names) == expected
    assert parallel.default_splits(model.config, [name for name in names if "mlp" in name]) == expected[1:]
    model.save_pretrained(tmp_path / "folder")
    assert parallel.splits_of(str(tmp_path / "folder"), None) == expected
    with pytest.raises(SparsmithError, match=r"names no layers.*give splits=\['attention/8:rows="):
        parallel.splits_of(nn.Sequential(nn.Linear(4, 4)), ["0"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(SparsmithError, match="is no folder of a transformers model.*give splits="):
        parallel.splits_of(str(tmp_path / "empty"), None)


def test_refused(tmp_path):
    layer = nn.Sequential(nn.Linear(64, 32))
    sparsmith.prune.magnitude_(layer, 0.8)
    path = tmp_path / "a.tuned.safetensors"
    options = {"device": "none", "progress": False, "tokens": (1,)}
    with pytest.raises(SparsmithError, match="tensor_parallel"):
        sparsmith.tune(layer, path, splits=["a:rows=0.weight"], **options)
    with pytest.raises(SparsmithError, match="2 units are too few for 3 ranks"):
        sparsmith.tune(layer, path, splits=["a/2:rows=0.weight"], tensor_parallel=3, **options)
    report = sparsmith.tune(layer, path, splits=["a:rows=0.weight"], tensor_parallel=2, **options)
    file = report["ranks"][1]["file"]
    with pytest.raises(SparsmithError, match="is for rank 1 of 2: parts of weights are constant"):
        sparsmith.load(file, training=True)
    with pytest.raises(SparsmithError, match=r"0\.weight is for rank 1 of 2: call .*init_process_group"):
        SparseLinear.from_tuned(sparsmith.load(file), "0.weight")
