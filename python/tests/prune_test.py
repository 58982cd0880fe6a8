"""Tests of sparsmith.prune against references written as plain loops."""

from __future__ import annotations

import doctest
import itertools
import math
import random
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from sparsmith import prune

Rows = list[list[float]]
Unit = tuple[int, int, int]  # Layer, row of blocks, column of blocks.
Model = nn.Sequential


class Conv1D(nn.Module):
    """As in transformers: weight is [in, out]."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight = nn.Parameter(torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


@pytest.fixture
def rng(seed: int) -> random.Random:
    return random.Random(seed)


@pytest.fixture(params=["one chunk", "chunks of a few rows"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "one chunk":
        monkeypatch.setattr(prune, "_CHUNK", 40)


def fill(model: nn.Module, rng: random.Random, largest: int = 4) -> None:
    """Small integers: many ties, many zeros, and sums that are exact in fp32."""
    with torch.no_grad():
        for parameter in model.parameters():
            values = [float(rng.randint(-largest, largest)) for _ in range(parameter.numel())]
            parameter.copy_(torch.tensor(values).reshape(parameter.shape))


def layer_of(*rows: list[float], dtype: torch.dtype = torch.float32) -> nn.Linear:
    """A layer without bias."""
    layer = nn.Linear(len(rows[0]), len(rows), bias=False, dtype=dtype)
    layer.weight.data.copy_(torch.tensor(rows))
    return layer


def seen(layer: nn.Module) -> torch.Tensor:
    """The weight as [out, in]."""
    return layer.weight.detach().t() if isinstance(layer, Conv1D) else layer.weight.detach()


def reference(
    weights: list[Rows], scores: list[Rows], sparsity: float, scope: str, pattern: prune.Pattern
) -> list[Rows]:
    """Sorts all units of a group by (nonzero, score, place) and zeros the first ones."""
    bm, bn = pattern if isinstance(pattern, tuple) else (1, 1)
    group = int(pattern.split(":")[1]) if isinstance(pattern, str) else 0
    groups: dict[object, list[tuple[bool, float, Unit]]] = {}
    for index, (weight, score) in enumerate(zip(weights, scores, strict=True)):
        for r in range(len(weight) // bm):
            for c in range(len(weight[0]) // bn):
                cells = [(r * bm + i, c * bn + j) for i in range(bm) for j in range(bn)]
                nonzero = any(weight[i][j] != 0 for i, j in cells)
                total = sum(score[i][j] ** 2 for i, j in cells)
                if group:
                    key: object = (index, r, c // group)
                else:
                    key = {"model": 0, "layer": index, "row": (index, r)}[scope]
                groups.setdefault(key, []).append((nonzero, total, (index, r, c)))
    result = [[list(row) for row in weight] for weight in weights]
    for units in groups.values():
        for _, _, (index, r, c) in sorted(units)[: round(sparsity * len(units))]:
            for i in range(bm):
                for j in range(bn):
                    result[index][r * bm + i][c * bn + j] = 0.0
    return result


CASES = [(scope, pattern) for scope in ("layer", "row", "model") for pattern in (None, (2, 4), (4, 1), "2:4", "1:4")]


def choose_sparsity(pattern: prune.Pattern, rng: random.Random) -> float:
    return {"2:4": 0.5, "1:4": 0.75}[pattern] if isinstance(pattern, str) else rng.choice([0.0, 0.1, 0.5, rng.random()])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("scope", "pattern"), CASES)
def test_magnitude_is_the_reference(
    scope: prune.Scope, pattern: prune.Pattern, dtype: torch.dtype, rng: random.Random, chunks: None
) -> None:
    model = nn.Sequential(nn.Linear(8, 12), Conv1D(4, 12), nn.ReLU(), nn.Linear(4, 8, bias=False)).to(dtype)
    fill(model, rng)
    layers = [model[0], model[1], model[3]]
    layers[2].weight.requires_grad_(False)
    pointers = [layer.weight.data_ptr() for layer in layers]
    biases = [model[0].bias.tolist(), model[1].bias.tolist()]
    weights = [seen(layer).tolist() for layer in layers]
    scores = [[[abs(w) for w in row] for row in weight] for weight in weights]
    sparsity = choose_sparsity(pattern, rng)
    expected = reference(weights, scores, sparsity, scope, pattern)

    report = prune.magnitude_(model, sparsity, scope=scope, pattern=pattern)

    assert [seen(layer).tolist() for layer in layers] == expected
    assert [tuple(line) for line in report] == [
        (name, (len(weight), len(weight[0])), sum(w == 0 for row in weight for w in row))
        for name, weight in zip("013", expected, strict=True)
    ]
    assert [layer.weight.data_ptr() for layer in layers] == pointers
    assert [layer.weight.dtype for layer in layers] == [dtype] * 3
    assert [layer.weight.requires_grad for layer in layers] == [True, True, False]
    assert [model[0].bias.tolist(), model[1].bias.tolist()] == biases


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_transposable_two_four_keeps_the_greatest_sum(dtype: torch.dtype, rng: random.Random, chunks: None) -> None:
    model = nn.Sequential(nn.Linear(8, 12), Conv1D(4, 12)).to(dtype)
    fill(model, rng)
    weights = [seen(layer).clone() for layer in model]

    report = prune.magnitude_(model, 0.5, pattern="2:4-transposable")

    pairs = list(itertools.combinations(range(4), 2))
    for layer, weight, line in zip(model, weights, report, strict=True):
        kept = seen(layer)
        assert torch.equal(kept[kept != 0], weight[kept != 0])
        assert line.zeros == int((kept == 0).sum())
        for r, c in itertools.product(range(0, weight.shape[0], 4), range(0, weight.shape[1], 4)):
            tile, pruned = weight[r : r + 4, c : c + 4], kept[r : r + 4, c : c + 4]
            assert int((pruned != 0).sum(0).max()) <= 2 >= int((pruned != 0).sum(1).max())
            best = max(
                sum(abs(float(tile[i, j])) for i, pair in enumerate(rows) for j in pair)
                for rows in itertools.product(pairs, repeat=4)
                if all(sum(j in pair for pair in rows) == 2 for j in range(4))
            )
            assert float(pruned.double().abs().sum()) == pytest.approx(best)


def test_transposable_two_four_takes_norms_and_strange_weights() -> None:
    layer = nn.Linear(4, 4, bias=False)
    nn.init.ones_(layer.weight)
    prune.wanda_(layer, 0.5, [torch.tensor([1.0, 2.0, 2.0, 1.0])], pattern="2:4-transposable")
    assert [int(count) for count in (layer.weight != 0).sum(0)] == [2] * 4
    nn.init.ones_(layer.weight)
    with torch.no_grad():
        layer.weight[1, 2], layer.weight[3, 3] = math.nan, math.inf
    assert prune.magnitude_(layer, 0.5, pattern="2:4-transposable")[0].zeros == 8
    assert layer.weight[1, 2].isnan() and layer.weight[3, 3].isinf()


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 12, bias=False)
        self.second = Conv1D(4, 12)

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        hidden = self.first(input=x)
        return self.second(hidden if y is None else hidden + y)


@pytest.mark.parametrize(("scope", "pattern"), CASES)
def test_wanda_is_the_reference(scope: prune.Scope, pattern: prune.Pattern, rng: random.Random, chunks: None) -> None:
    model = TwoInputs()
    fill(model, rng)
    # Each input feature has one nonzero, a power of two. A hidden feature is 0 or an input feature, doubled.
    # So norms are powers of two or 0, scores are exact and ties stay.
    inputs, first_squares = [], [0.0] * 8
    for column in range(8):
        x = torch.zeros(2, 3, 8)
        x[rng.randrange(2), rng.randrange(3), column] = value = rng.choice([0.0, -1.0, 2.0, 4.0])
        first_squares[column] += value**2
        y = torch.zeros(2, 3, 12)
        inputs.append(rng.choice([x, (x,), [x, y], {"x": x}, {"x": x, "y": y}]))
    with torch.no_grad():
        model.first.weight.copy_(torch.where(torch.arange(8) == torch.arange(12)[:, None] % 8, 2.0, 0.0))
        model.first.weight[8:] = 0
    second_squares = [4 * square for square in first_squares] + [0.0] * 4
    layers = [model.first, model.second]
    weights = [seen(layer).tolist() for layer in layers]
    scores = [
        [[abs(w) * square**0.5 for w, square in zip(row, squares, strict=True)] for row in weight]
        for weight, squares in zip(weights, [first_squares, second_squares], strict=True)
    ]
    sparsity = choose_sparsity(pattern, rng)

    report = prune.wanda_(model, sparsity, iter(inputs), scope=scope, pattern=pattern)

    assert [seen(layer).tolist() for layer in layers] == reference(weights, scores, sparsity, scope, pattern)
    assert [line.name for line in report] == ["first", "second"]
    assert not model.first._forward_pre_hooks and not model.second._forward_pre_hooks


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_wanda_ranks_random_weights_by_the_paper(dtype: torch.dtype, rng: random.Random) -> None:
    layer = nn.Linear(32, 16, bias=False).to(dtype)
    inputs = [(torch.randn(shape) * torch.linspace(0.1, 30, 32)).to(dtype) for shape in [(5, 32), (2, 7, 32), (32,)]]
    dense = layer.weight.detach().clone()
    prune.wanda_(layer, 0.5, inputs)
    norms = [sum(x.reshape(-1, 32)[t, i].item() ** 2 for x in inputs for t in range(x.numel() // 32)) ** 0.5
             for i in range(32)]  # fmt: skip
    for row in range(16):
        score = [abs(dense[row, i].item()) * norms[i] for i in range(32)]
        kept = [i for i in range(32) if layer.weight[row, i] != 0]
        assert len(kept) == 16
        # fp32 sums may swap neighbours that differ by rounding only.
        assert min(score[i] for i in kept) >= max(score[i] for i in range(32) if i not in kept) * (1 - 1e-5)
        assert all(layer.weight[row, i] == dense[row, i] for i in kept)


def test_squares_of_fp16_values_do_not_overflow() -> None:
    layer = layer_of([3.0, 2.0], dtype=torch.float16)
    prune.wanda_(layer, 0.5, [torch.tensor([1000.0, 2000.0]).half()] * 3)  # In fp16 both norms are infinite.
    assert layer.weight.tolist() == [[0.0, 2.0]]
    layer = layer_of([900.0, 900.0, 800.0, 800.0], dtype=torch.float16)
    prune.magnitude_(layer, 0.5, pattern=(1, 2))
    assert layer.weight.tolist() == [[900.0, 900.0, 0.0, 0.0]]


@pytest.mark.parametrize("scope", ["layer", "row", "model"])
def test_counts_are_exact_for_real_values(scope: prune.Scope, rng: random.Random) -> None:
    layer = nn.Linear(300, 200)
    magnitudes = sorted(abs(w) for row in layer.weight.tolist() for w in row)
    sparsity = rng.random()
    (line,) = prune.magnitude_(layer, sparsity, scope=scope)
    assert line.zeros == (200 * round(sparsity * 300) if scope == "row" else round(sparsity * 60000))
    assert line.zeros == sum(w == 0 for row in layer.weight.tolist() for w in row)
    if scope != "row":
        kept = sorted(abs(w) for row in layer.weight.tolist() for w in row if w != 0)
        assert kept == magnitudes[line.zeros :]


@pytest.mark.parametrize("scope", ["layer", "row", "model"])
def test_zeros_go_first_when_norms_are_zero(scope: prune.Scope) -> None:
    layer = layer_of([5.0, 1.0, 0.0, -0.0])
    (line,) = prune.wanda_(layer, 0.5, [torch.tensor([0.0, 1.0, 1.0, 1.0])], scope=scope)
    assert layer.weight.tolist() == [[5.0, 1.0, 0.0, 0.0]]
    assert line.zeros == 2


def test_more_zeros_than_asked_stay() -> None:
    layer = layer_of([1.0] + [0.0] * 7, *[[0.0] * 8] * 7)
    assert [line.zeros for line in prune.magnitude_(layer, 0.5)] == [63]


@pytest.mark.parametrize("scope", ["layer", "row", "model"])
def test_nan_and_infinity_are_kept(scope: prune.Scope) -> None:
    layer = layer_of([0.0, float("-inf"), 2.0, 3.0])
    layer.weight.data.view(torch.int32)[0, 0] = 0x7FFFFFFF  # The largest bit pattern of a NaN.
    prune.magnitude_(layer, 0.5, scope=scope)
    assert layer.weight[0, 2:].tolist() == [0.0, 0.0]
    layer.weight.data[0, 2:] = 1.0
    prune.wanda_(layer, 0.5, [torch.tensor([0.0, 0.0, 1.0, 1.0])], scope=scope)  # Infinity times 0 is a NaN.
    assert layer.weight[0, 0].isnan() and layer.weight[0, 1].isinf()


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize(("scope", "pattern"), CASES)
def test_layers_without_weights(scope: prune.Scope, pattern: prune.Pattern) -> None:
    model = nn.Sequential(nn.Linear(0, 4), nn.Linear(4, 0), nn.Linear(8, 4))
    zeros = 24 if pattern == "1:4" else 16
    assert [line.zeros for line in prune.magnitude_(model, zeros / 32, scope=scope, pattern=pattern)] == [0, 0, zeros]


def test_default_filter_leaves_lm_head() -> None:
    model = nn.ModuleDict({"body": nn.Linear(4, 4), "lm_head": nn.Linear(4, 4)})
    assert [line.name for line in prune.magnitude_(model, 0.5)] == ["body"]
    assert model["lm_head"].weight.count_nonzero() == 16
    assert [line.name for line in prune.magnitude_(model, 0.5, filter_fn=lambda _, name: "lm" in name)] == ["lm_head"]


def test_filter_is_asked_for_linear_layers_only() -> None:
    model = nn.Sequential(nn.Embedding(4, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 4, 1), Conv1D(4, 4))
    asked = []
    prune.magnitude_(model, 0.5, filter_fn=lambda module, name: asked.append((module, name)) is None)
    assert asked == [(model[1], "1"), (model[4], "4")]


def test_shared_weights_are_pruned_once() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.other = layer_of([1.0, 1.5], [1.5, 1.0]), nn.Linear(2, 2, bias=False), nn.Linear(2, 2)
            self.b.weight = self.a.weight
            self.again = self.a

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.a(x) + self.b(y) + self.other(x)

    model = Twice()
    # Norms of the shared weight: 3 and 4, where `a` alone has 3 and 0.
    report = prune.wanda_(model, 0.5, [(torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0]))])
    assert [(line.name, line.zeros) for line in report] == [("a", 2), ("other", 2)]
    assert model.b.weight.tolist() == [[0.0, 1.5], [1.5, 0.0]]
    assert model.a.weight is model.b.weight
    assert [(line.name, line.zeros) for line in prune.magnitude_(model, 0.5, scope="model")] == [("a", 2), ("other", 2)]


def test_module_of_two_names_is_seen_once() -> None:
    small, large = layer_of([1.0]), layer_of([1.2])
    model = Model(nn.Sequential(small, large))
    model.lm_head = nn.ModuleDict({"a": small})
    model.forward = lambda x: (small(x), large(x))
    # Inputs of `small` that count twice would give it the larger score.
    report = prune.wanda_(model, 0.5, [torch.ones(1)], scope="model", filter_fn=lambda *_: True)
    assert [(line.name, line.zeros) for line in report] == [("0.0", 1), ("0.1", 0)]
    # Any name that the filter accepts selects the module.
    tied = nn.ModuleDict({"lm_head": large, "output": large})
    assert [line.name for line in prune.magnitude_(tied, 0.0)] == ["output"]


def test_conv1d_of_others_is_left() -> None:
    layer = type("Conv1D", (nn.Module,), {})()
    layer.weight = nn.Parameter(torch.ones(4, 4, 3))
    assert [line.name for line in prune.magnitude_(Model(layer, nn.Linear(4, 4)), 0.5)] == ["1"]


def test_transformers_gpt2() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=32, n_positions=8)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = {"input_ids": torch.arange(8)[None]}
    report = prune.wanda_(model, 0.5, [ids], pattern="2:4")
    shapes = {"attn.c_attn": (48, 16), "attn.c_proj": (16, 16), "mlp.c_fc": (64, 16), "mlp.c_proj": (16, 64)}
    assert {line.name.removeprefix("transformer.h.0."): line.shape for line in report} == shapes
    for line in report:
        weight = model.get_submodule(line.name).weight.detach().t()
        assert all(group.count_nonzero() == 2 for row in weight for group in row.split(4))
    assert model.lm_head.weight.count_nonzero() == 32 * 16


def refused(message: str, call: Callable[[nn.Module], object], model: nn.Module | None = None) -> None:
    """The call raises ValueError with the message and changes no weight."""
    model = Model(nn.Linear(8, 8), nn.Linear(8, 6)) if model is None else model
    before = {name: t.clone() for name, t in model.state_dict().items() if not t.is_meta}
    with pytest.raises(ValueError, match=message):
        call(model)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items() if name in before)
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("sparsity", [-0.1, 1.0, 1.5, float("nan")])
def test_refuses_sparsity(sparsity: float) -> None:
    refused("sparsity is", lambda model: prune.magnitude_(model, sparsity))
    refused("sparsity is", lambda model: prune.wanda_(model, sparsity, [torch.ones(8)]))


def test_refuses_scope_and_patterns() -> None:
    refused("scope is 'global'", lambda model: prune.magnitude_(model, 0.5, scope="global"))  # type: ignore[arg-type]
    for pattern in ("4:4", "0:4", "5:4", "2:4:8", "2-4", "", (4,), (0, 4), (4, 4, 4), (2.0, 2.0), [4, 4], 4):
        refused("pattern is", lambda model: prune.magnitude_(model, 0.5, pattern=pattern))  # noqa: B023
    refused("implies 0.5", lambda model: prune.magnitude_(model, 0.6, pattern="2:4"))
    refused("implies 0.6667", lambda model: prune.magnitude_(model, 0.5, pattern="1:3"))


def test_sparsity_of_a_pattern_may_be_rounded() -> None:
    assert [line.zeros for line in prune.magnitude_(nn.Linear(6, 2), 0.667, pattern="1:3")] == [8]


def test_refuses_shapes() -> None:
    refused("layer '0': .* groups of 3 input", lambda model: prune.magnitude_(model, 0.6667, pattern="1:3"))
    # The first layer divides: the second one is found before the first one changes.
    refused("layer '1': .* 4 x 4 blocks", lambda model: prune.magnitude_(model, 0.5, pattern=(4, 4)))
    refused("layer '0': .* 8 x 16 blocks", lambda model: prune.magnitude_(model, 0.5, pattern=(8, 16)))
    # N:M runs along the input features, also where they are stored first.
    refused("groups of 4 input", lambda model: prune.magnitude_(model, 0.5, pattern="2:4"), Model(Conv1D(8, 6)))
    assert prune.magnitude_(Conv1D(6, 8), 0.5, pattern="2:4")[0].shape == (6, 8)
    for rows, columns in ((6, 8), (8, 6)):
        refused("4 x 4 tiles", lambda model: prune.magnitude_(model, 0.5, pattern="2:4-transposable"),
                Model(nn.Linear(columns, rows)))


def test_refuses_models_without_layers() -> None:
    refused("no layer to prune", lambda model: prune.magnitude_(model, 0.5), Model(nn.ReLU()))
    refused("no layer to prune", lambda model: prune.magnitude_(model, 0.5, filter_fn=lambda *_: False))


class Double(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


@pytest.mark.parametrize("make", [lambda: nn.Linear(8, 8), lambda: Conv1D(8, 8)], ids=["Linear", "Conv1D"])
def test_refuses_reparametrized_layers(make: Callable[[], nn.Module]) -> None:
    from torch.nn.utils import parametrize
    from torch.nn.utils import prune as torch_prune

    masked = Model(nn.Linear(8, 8), make())
    torch_prune.l1_unstructured(masked[1], "weight", 0.5)
    parametrized = Model(nn.Linear(8, 8), make())
    parametrize.register_parametrization(parametrized[1], "weight", Double())
    with pytest.raises(ValueError, match=r"layer '1': .*torch.nn.utils.prune.remove"):
        prune.magnitude_(masked, 0.5)
    refused(r"layer '1': .*remove_parametrizations", lambda model: prune.magnitude_(model, 0.5), parametrized)
    assert masked[0].weight.count_nonzero() == 64
    assert [line.name for line in prune.magnitude_(masked, 0.5, filter_fn=lambda _, name: name == "0")] == ["0"]

    torch_prune.remove(masked[1], "weight")
    parametrize.remove_parametrizations(parametrized[1], "weight")
    for model in (masked, parametrized):
        assert [line.zeros for line in prune.magnitude_(model, 0.5)] == [32, 32]


def test_refuses_weights_without_plain_data() -> None:
    class Special(nn.Parameter):
        pass

    special = Model(nn.Linear(8, 8))
    special[0].weight = Special(torch.ones(8, 8))
    integers = Model(nn.Linear(8, 8))
    integers[0].weight = nn.Parameter(torch.ones(8, 8, dtype=torch.int8), requires_grad=False)
    refused("layer '0': .* meta", lambda m: prune.magnitude_(m, 0.5), Model(nn.Linear(8, 8, device="meta")))
    refused("layer '0': .* Special", lambda m: prune.magnitude_(m, 0.5), special)
    refused("layer '0': .*int8", lambda m: prune.magnitude_(m, 0.5), integers)


class Routed(nn.Module):
    """Sends tokens with a positive first feature to `used` only."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle, self.unreached = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> None:
        self.used(x)
        self.idle(x[x[:, 0] < 0])


def test_wanda_names_layers_without_input() -> None:
    x = torch.ones(2, 4)
    refused(r"\['idle', 'unreached'\] get no input", lambda model: prune.wanda_(model, 0.5, [x]), Routed())
    refused(r"\['used', 'idle', 'unreached'\] get no input", lambda model: prune.wanda_(model, 0.5, []), Routed())
    report = prune.wanda_(Routed(), 0.5, [x, -x], filter_fn=lambda _, name: name != "unreached")
    assert [line.name for line in report] == ["used", "idle"]


def test_wanda_refuses_inputs() -> None:
    refused("not an iterable of model inputs", lambda model: prune.wanda_(model, 0.5, torch.ones(2, 8)))
    refused("not an iterable of model inputs", lambda model: prune.wanda_(model, 0.5, {"input": torch.ones(2, 8)}))
    for value in (float("nan"), float("inf")):
        x = torch.tensor([1.0] * 7 + [value])
        refused("layer '0': .* NaN or infinite", lambda model: prune.wanda_(model, 0.5, [x]))  # noqa: B023


def test_wanda_removes_hooks_when_the_model_fails() -> None:
    model = Model(nn.Linear(8, 8), nn.Linear(8, 6))
    hooked = []

    def inputs() -> Iterator[torch.Tensor]:
        hooked.append(all(layer._forward_pre_hooks for layer in model))
        yield torch.ones(2, 8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune.wanda_(model, 0.5, inputs())
    with pytest.raises(RuntimeError, match="shapes"):
        prune.wanda_(model, 0.5, [torch.ones(2, 7)])
    assert hooked == [True]
    assert not any(layer._forward_pre_hooks or layer._forward_pre_hooks_with_kwargs for layer in model)
    assert all(layer.weight.count_nonzero() == layer.weight.numel() for layer in model)


def test_wanda_makes_no_graph() -> None:
    modes = []
    model = Model(nn.Linear(8, 8))
    model.register_forward_hook(lambda module, args, output: modes.append((output.requires_grad, module.training)))
    prune.wanda_(model.eval(), 0.5, [torch.ones(2, 8)])
    assert modes == [(False, False)]
    assert torch.is_grad_enabled()


def test_pruned_weights_train() -> None:
    layer = nn.Linear(8, 8)
    prune.magnitude_(layer, 0.5)
    layer(torch.ones(2, 8)).sum().backward()
    assert layer.weight.is_leaf and layer.weight.grad is not None and layer.weight.grad.count_nonzero() == 64


def test_examples() -> None:
    result = doctest.testmod(prune)
    assert result.attempted > 0 and result.failed == 0
