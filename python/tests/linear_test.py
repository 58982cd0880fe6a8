"""SparseLinear against nn.Linear."""

import copy
import pickle
import subprocess
import sys
import threading

import pytest
import torch
from conftest import close, sparse_linear

import sparsmith
from sparsmith import SparseLinear, SparsmithError, tuning

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def sparse_of(made, device):
    layer, file, name = made
    return SparseLinear.from_tuned(file, name, layer.bias, device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("bias", "fused"), [(False, False), (True, False), (True, True)])
def test_equals_dense(tuned_layers, device, dtype, bias, fused):
    made = tuned_layers(dtype, device, bias, fused)
    layer, sparse = made[0], sparse_of(made, device)
    for shape in [(160,), (1, 160), (5, 160), (2, 3, 160), (1, 40, 160), (2, 1, 2, 160)]:
        x = torch.randn(shape, dtype=dtype, device=device)
        with torch.no_grad():
            y = sparse(x)
        assert y.shape == (*shape[:-1], 96) and y.dtype == dtype and y.is_contiguous()
        close(y, layer(x), dtype)


def test_any_memory_layout(tuned_layers, device):
    made = tuned_layers(device=device)
    layer, sparse = made[0], sparse_of(made, device)
    base = torch.randn(6, 8, 160, device=device)
    with torch.no_grad():
        for x in [base[::2], base[:, ::2], base[:, 3], base.transpose(0, 1), torch.randn(8, 320, device=device)[:, ::2],
                  torch.randn(160, 7, device=device).t(), torch.randn(1, 160, device=device).expand(5, 160),
                  torch.randn(4, 200, device=device)[:, 8:168], base.new_empty(0, 160), base.new_empty(3, 0, 160)]:
            close(sparse(x), layer(x), torch.float32)


def test_bad_inputs_are_errors(tuned_layers, device):
    sparse = sparse_of(tuned_layers(device=device), device)
    for x, message in [(torch.randn(3, 159, device=device), "last dimension must be 160"),
                       (torch.randn(3, 160, device=device, dtype=torch.float64), "x must be fp32"),
                       (torch.tensor(1.0, device=device), "last dimension must be 160")]:
        with torch.no_grad(), pytest.raises(RuntimeError, match=message):
            sparse(x)
    with torch.no_grad(), pytest.raises(RuntimeError, match="the plan 17 is not known"):
        torch.ops.sparsmith.linear(torch.randn(3, 160, device=device), sparse.packed, None, 17)
    with torch.no_grad(), pytest.raises(RuntimeError, match="bytes of torch.uint8"):
        torch.ops.sparsmith.linear(torch.randn(3, 160, device=device), sparse.packed[:-1], None, sparse.plan)
    with torch.no_grad(), pytest.raises(RuntimeError, match="tuned without a bias"):
        torch.ops.sparsmith.linear(torch.randn(3, 160, device=device), sparse.packed, sparse.bias, sparse.plan)


def test_gradients(tuned_layers, device):
    for fused in (False, True):
        layer, file, name = tuned_layers(device=device, fused=fused)
        layer = copy.deepcopy(layer)
        sparse = SparseLinear.from_tuned(file, name, layer.bias, device)
        x = torch.randn(2, 4, 160, device=device, requires_grad=True)
        grad = torch.randn(2, 4, 96, device=device)
        sparse(x).backward(grad)
        got, x.grad = x.grad, None
        layer(x).backward(grad)
        close(got, x.grad, torch.float32)
        close(sparse.bias.grad, layer.bias.grad, torch.float32)


def test_the_dense_weight(tuned_layers, device):
    for dtype in DTYPES:
        made = tuned_layers(dtype, device)
        sparse = sparse_of(made, device)
        assert torch.equal(sparse.to_dense(), made[0].weight)
        assert (sparse.weight.shape, sparse.weight.dtype, sparse.weight.device) == \
            (made[0].weight.shape, dtype, made[0].weight.device)
        assert sparse.weight.untyped_storage().nbytes() <= 4


def test_copies_moves_and_types(tuned_layers, device):
    made = tuned_layers(torch.float16, device)
    layer, sparse = made[0], sparse_of(made, device)
    x = torch.randn(3, 160, dtype=torch.float16, device=device)
    with torch.no_grad():
        y = sparse(x)
        other = copy.deepcopy(sparse)
        assert other.packed.data_ptr() != sparse.packed.data_ptr()
        assert torch.equal(other(x), y)
        assert torch.equal(pickle.loads(pickle.dumps(sparse))(x), y)
        close(copy.deepcopy(sparse).cpu()(x.cpu()), y.cpu(), torch.float16)
        assert sparse.float().bias.dtype == torch.float16  # the packed values are fp16, and so is the layer
    names = dict(sparse.named_parameters())
    assert list(names) == ["bias"]
    assert sum(buffer.numel() * buffer.element_size() for buffer in sparse.buffers()) < sparse.tuned.packed_bytes + 64
    assert layer.weight.dtype == torch.float16


def test_state_dict(tuned_layers, device, tmp_path):
    made = tuned_layers(device=device)
    sparse = sparse_of(made, device)
    torch.save(sparse.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    fresh = sparse_of(made, device)
    fresh.packed.zero_()
    fresh.load_state_dict(state)
    assert torch.equal(fresh.packed, sparse.packed)
    state["packed"] = torch.full_like(state["packed"], 255)  # offsets that point out of the weight
    with pytest.raises(SparsmithError):
        fresh.load_state_dict(state)
    assert torch.equal(fresh.packed, sparse.packed)
    # Bytes that pass as they lie, and become others when they are copied into uint8.
    state["packed"] = sparse.packed.view(torch.int8)
    with pytest.raises(SparsmithError, match="uint8, not torch.int8"):
        fresh.load_state_dict(state)


def test_autocast(tuned_layers, device):
    made = tuned_layers(torch.bfloat16, device)
    layer, sparse = made[0], sparse_of(made, device)
    x = torch.randn(3, 160, device=device)
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        close(sparse(x), layer(x), torch.bfloat16)


def test_threads(tuned_layers, device):
    made = tuned_layers(device=device)
    sparse = sparse_of(made, device)
    inputs = [torch.randn(n, 160, device=device) for n in (1, 3, 16, 20)]
    with torch.no_grad():
        expected = [sparse(x) for x in inputs]
    wrong = []

    def work(index):
        with torch.no_grad():
            for _ in range(50):
                if not torch.equal(sparse(inputs[index]), expected[index]):
                    wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_opcheck(tuned_layers, device):
    for fused in (False, True):
        made = tuned_layers(device=device, fused=fused)
        sparse = sparse_of(made, device)
        bias = sparse.bias.detach() if fused else None
        x = torch.randn(2, 3, 160, device=device)
        torch.library.opcheck(torch.ops.sparsmith.linear.default, (x, sparse.packed, bias, sparse.plan))
        torch.library.opcheck(torch.ops.sparsmith.linear_out.default,
                              (x, sparse.packed, bias, sparse.plan, None, x.new_empty(2, 3, 96)))
        if device == "cpu":
            torch.library.opcheck(torch.ops.sparsmith.to_dense.default, (sparse.packed, sparse.plan))


def test_out(tuned_layers, device):
    made = tuned_layers(device=device)
    sparse = sparse_of(made, device)
    x = torch.randn(5, 160, device=device)
    out = torch.empty(5, 96, device=device)
    torch.ops.sparsmith.linear_out(x, sparse.packed, None, sparse.plan, None, out)
    assert torch.equal(out, torch.ops.sparsmith.linear(x, sparse.packed, None, sparse.plan))
    with pytest.raises(RuntimeError, match="out is"):
        torch.ops.sparsmith.linear_out(x, sparse.packed, None, sparse.plan, None, out[:4])


def test_compile_and_export(tuned_layers, device):
    made = tuned_layers(device=device, fused=True)
    sparse = sparse_of(made, device)
    x = torch.randn(4, 160, device=device)
    with torch.no_grad():
        expected = sparse(x)
        backend = "inductor" if device == "cuda" else "aot_eager"  # the CPU's needs a C++ compiler
        compiled = torch.compile(sparse, fullgraph=True, backend=backend)
        assert torch.equal(compiled(x), expected)
        close(compiled(torch.cat([x, x])), torch.cat([expected, expected]), torch.float32)
        batch = torch.export.Dim("batch", min=1, max=1024)
        program = torch.export.export(sparse, (x,), dynamic_shapes=({0: batch},))
        close(program.module()(torch.cat([x, x])), torch.cat([expected, expected]), torch.float32)
    y = torch.randn(4, 160, device=device, requires_grad=True)
    compiled = torch.compile(sparse, fullgraph=True, backend="aot_eager")
    compiled(y).sum().backward()
    got, y.grad = y.grad, None
    sparse(y).sum().backward()
    close(got, y.grad, torch.float32)


DENSE_AHEAD_OF_TIME = """
import sys, torch
layer, x = torch.nn.Linear(64, 32, device="cuda"), torch.randn(4, 64, device="cuda")
program = torch.export.export(layer.eval(), (x,))
runner = torch._inductor.aoti_load_package(torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1]))
torch.testing.assert_close(runner(x), layer(x))
"""


def test_ahead_of_time(tuned_layers, device, tmp_path):
    if device == "cuda":
        dense = subprocess.run([sys.executable, "-c", DENSE_AHEAD_OF_TIME, str(tmp_path / "dense.pt2")], check=False,
                               capture_output=True, text=True)
        if dense.returncode != 0:
            pytest.skip(f"torch cannot run a dense layer's package: {dense.returncode} {dense.stderr[-200:]}")
    sparse = sparse_of(tuned_layers(device=device, fused=True), device)
    x = torch.randn(4, 160, device=device)
    with torch.no_grad():
        program = torch.export.export(sparse, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "layer.pt2"))
        runner = torch._inductor.aoti_load_package(package)
        assert torch.equal(runner(x), sparse(x))
        close(runner(torch.cat([x, x])), sparse(torch.cat([x, x])), torch.float32)


def test_from_linear(device):
    layer = sparse_linear(64, 128, device=device, sparsity=0.9)
    x = torch.randn(3, 128, device=device)
    for search in (False, True):
        sparse = SparseLinear.from_linear(layer, tokens=(1,), memory="4x", search=search)
        with torch.no_grad():
            close(sparse(x), layer(x), torch.float32)
        assert ("predicted" in repr(sparse)) == (not search or not torch.cuda.is_available())
    with pytest.raises(SparsmithError, match="enough zeros"):
        SparseLinear.from_linear(sparse_linear(64, 128, device=device, sparsity=0.0))


@pytest.mark.parametrize(("capability", "arguments"), [
    ((8, 0), ["--arch", "sm_80"]), ((9, 0), ["--arch", "sm_90"]),
    ((8, 6), ["--candidates", "4"])])  # there is no typical device of 8.6 to predict for
def test_prediction_for_the_gpu(monkeypatch, capability, arguments):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    tune, given = tuning.tune, {}
    monkeypatch.setattr(tuning, "tune", lambda *a, **options: given.update(options) or tune(*a, **options | {"device": "none"}))
    sparse = SparseLinear.from_linear(sparse_linear(64, 128, sparsity=0.9), tokens=(1,), memory="4x")
    assert given["arguments"] == arguments and (given["device"] == "none") == ("--arch" in arguments)
    assert sparsmith.load(sparse.tuned.file).architectures == (("sm_80",) if capability == (8, 0) else ("sm_90",))


def test_from_linear_without_a_compiler(no_compiler, dense_warning):
    layer = sparse_linear(64, 128, sparsity=0.9)
    for _ in range(2):
        assert SparseLinear.from_linear(layer, search=True, device="cuda:0") is layer


def test_from_linear_without_kernels(monkeypatch, dense_warning):
    monkeypatch.setattr(sparsmith.TunedFile, "runs_on", lambda file, device: False)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    layer = sparse_linear(64, 128, sparsity=0.9)
    for _ in range(2):
        assert SparseLinear.from_linear(layer, tokens=(1,), memory="4x") is layer


@pytest.mark.parametrize(("architectures", "runs", "does_not"), [
    ([], [], [(8, 0), (9, 0)]), (["sm_80"], [(8, 0), (8, 6)], [(7, 5), (9, 0)]),
    (["sm_90a"], [(9, 0)], [(8, 0), (10, 0)]), (["sm_90", "sm_100a", "sm_103"], [(9, 0), (10, 0), (10, 3)], [(12, 0)])])
def test_files_for_other_gpus(tuned_layers, monkeypatch, architectures, runs, does_not):
    file = sparsmith.load(tuned_layers()[1].path)
    assert file.architectures == ("sm_90",) or torch.cuda.is_available()
    file.architectures = architectures
    for capability in runs + does_not:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, value=capability: value)
        assert file.runs_on("cuda") == (capability in runs)
    assert file.runs_on("cpu")


@pytest.mark.gpu
def test_graphs(tuned_layers, gpu):
    made = tuned_layers(torch.float16, gpu)
    layer, sparse = made[0], sparse_of(made, gpu)
    x = torch.randn(3, 160, dtype=torch.float16, device=gpu)
    with torch.no_grad():
        sparse(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = sparse(x)
        for _ in range(3):
            x.normal_()
            graph.replay()
            close(y, layer(x), torch.float16)


@pytest.mark.gpu
def test_first_call_inside_of_a_capture(tuned_layers, gpu):
    made = tuned_layers(torch.float16, gpu, sparsity=0.85)  # kernels that no other test has loaded
    layer, sparse = made[0], sparse_of(made, gpu)
    x = torch.randn(3, 160, dtype=torch.float16, device=gpu)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        y = sparse(x)
    graph.replay()
    close(y, layer(x), torch.float16)


@pytest.mark.gpu
def test_two_devices_of_a_process(tuned_layers, gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    made = tuned_layers(torch.float16, gpu)
    sparse = [sparse_of(made, f"cuda:{index}") for index in (1, 0)]  # of one file, in one plan
    x = torch.randn(3, 160, dtype=torch.float16)
    with torch.no_grad():
        for _ in range(2):
            outputs = [layer(x.to(layer.packed.device)) for layer in sparse]
            assert [y.device.index for y in outputs] == [1, 0]
            assert torch.equal(outputs[0].cpu(), outputs[1].cpu())
    close(outputs[1], made[0](x.to(gpu)), torch.float16)


@pytest.mark.gpu
def test_memory_does_not_grow(tuned_layers, gpu):
    sparse = sparse_of(tuned_layers(torch.float16, gpu), gpu)
    x = torch.randn(3, 160, dtype=torch.float16, device=gpu)
    with torch.no_grad():
        sparse(x)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        for _ in range(10_000):
            sparse(x)
        torch.cuda.synchronize()
        assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before


def test_errors_of_files(tmp_path):
    with pytest.raises(SparsmithError, match="no such file|not found|cannot"):
        sparsmith.load(tmp_path / "missing.safetensors")
    (tmp_path / "other.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    with pytest.raises(SparsmithError, match="other.safetensors"):
        sparsmith.load(tmp_path / "other.safetensors")
