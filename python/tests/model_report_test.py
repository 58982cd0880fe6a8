"""report_model: numbers of a step, and its page."""

import copy
import dataclasses
import json
import pathlib
import struct
from xml.etree import ElementTree

import pytest
import torch
from conftest import TUNE, sparse_linear, tuning_options
from torch import nn

import sparsmith
from sparsmith import KernelTime, ModelReport, SparsmithError, StepProfile, report_model
from sparsmith.model_report import KINDS, kind_of

HOSTILE = "<script>alert('&\"')</script>"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """(dense model, patched model, its PatchReport): two sparse layers, and one that stays dense."""
    dense = nn.Sequential(sparse_linear(128, 64), nn.ReLU(), sparse_linear(64, 128), nn.Linear(64, 32)).eval()
    sparse = copy.deepcopy(dense)
    path = tmp_path_factory.mktemp("tuned") / "model.tuned.safetensors"
    patched = sparsmith.optimize(sparse, exclude="3", output=path, **tuning_options())
    assert len(patched.patched) == 2
    return dense, sparse, patched


@pytest.fixture(scope="module")
def report(models, tmp_path_factory):
    dense, sparse, patched = models
    x, page = torch.randn(16, 64), tmp_path_factory.mktemp("report") / "page.html"
    with torch.no_grad():
        made = report_model(lambda: sparse(x), patched, dense_step=lambda: dense(x), tokens=16, output=page, rounds=3)
    return made, page.read_text(encoding="utf-8")


def rows_of(page):
    """The cells of all tables. The page is XML, too."""
    tree = ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


def test_numbers(report):
    made, _ = report
    assert made.device == "CPU" and made.allocated_bytes is None and made.device_bytes is None
    assert made.gain == made.dense.ms / made.sparse.ms
    assert made.tokens_per_s == pytest.approx(16 / (made.sparse.ms / 1e3))
    for step in (made.sparse, made.dense):
        times = [step.us(kind) for kind in KINDS]
        assert sum(times) == pytest.approx(sum(kernel.us for kernel in step.kernels)) and step.ms > 0
        assert step.between_us == max(0.0, 1e3 * step.ms - sum(kernel.us for kernel in step.kernels))
        assert [kernel.us for kernel in step.kernels] == sorted((kernel.us for kernel in step.kernels), reverse=True)
    assert made.sparse.launches("sparse linear") == 2 and made.sparse.us("sparse linear") > 0
    assert made.dense.launches("sparse linear") == 0 == made.dense.us("sparse linear")
    dense = {kernel.name: kernel.launches for kernel in made.dense.kernels if kernel.kind == "dense linear"}
    assert dense == {"aten::linear": 3, "aten::addmm": 3}
    assert {kernel.name: kernel.kind for kernel in made.sparse.kernels}["aten::relu"] == "other"


def test_text(report):
    made, _ = report
    lines = str(made).splitlines()
    assert lines[0].endswith("2 of 3 linear layers are sparse") and lines[0].startswith("CPU, torch ")
    assert lines[-1].startswith("between operators")
    assert f"{made.gain:.2f}x" in lines[2] and f"{made.sparse.ms:,.3f} ms" in lines[2]
    assert len(lines) <= 12 and max(map(len, lines)) < 100


def test_page(report):
    made, page = report
    rows = rows_of(page)
    for layer in made.patched.layers:
        row = next(row for row in rows if row[0] == layer.name and row[1] == f"{layer.shape[0]} x {layer.shape[1]}")
        assert row[-1] == (layer.choices_text() if layer.patched else "dense: not selected")
        assert [gain for gain in row[3:-3] if gain] == [f"{gain:.2f}x" for gain in layer.gains.values()]
    for kernel in made.sparse.kernels[:20] + made.dense.kernels[:20]:
        assert [kernel.name, kernel.kind, f"{kernel.us:,.1f}", f"{kernel.launches:,.1f}"] in rows
    assert "predicted by tuning" in page and f"{made.tokens_per_s:,.1f}" in page
    assert "http" not in page.replace("http-equiv", "") and "<script" not in page and "default-src 'none'" in page


def test_a_page_escapes_names_and_takes_long_models(report, tmp_path):
    made, _ = report
    layers = [dataclasses.replace(layer, name=f"{HOSTILE}.{number}") for number in range(100)
              for layer in made.patched.layers]
    kernels = [KernelTime(HOSTILE + str(number), "other", 100.0 - number, 1.0) for number in range(30)]
    patched = dataclasses.replace(made.patched, layers=layers, tuned_file=HOSTILE)
    ModelReport(patched, 1, StepProfile(1.0, kernels), None, HOSTILE, 5 << 30, 6 << 30).save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page and "5.37 GB" in page and "6.44 GB" in page
    rows = rows_of(page)
    assert sum(row[0].startswith(HOSTILE + ".") for row in rows) == 300
    assert [row[0] for row in rows if row[1:2] == ["other"]] == [HOSTILE + str(number) for number in range(20)]


KERNELS = {
    "sparse linear": """
        slots_fp16_tm_none_u16_v4_p1_d4_s4_xs_n1_b128x4
        two_four_bf16_fm_silu_r1_j1_h1_w4_bulk_g2
        finish_parts_fp16_tm_bias
        relayout_operands_mma_fp16_tm
        relayout_fp32
        sparsmith::linear""",
    "dense linear": """
        nvjet_hsh_64x8_64x16_4x1_v_bz_TNT
        sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_execute_segment_k_off_kernel__5x_cublas
        void cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8>(Params)
        void cublasLt::splitKreduce_kernel<32, 16, int, __half, __half, float>(cublasLt::cublasSplitKParams)
        void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128, 16, 4, 4, false, true>()
        std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __half>(cublasGemvParams)
        triton_tem_fused_addmm_0
        aten::addmm
        aten::bmm
        mkldnn::_linear_pointwise""",
    "attention": """
        void pytorch_flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::half_t>>
        fmha_cutlassF_f16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)
        cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x64x64_4x1x1_kernel0_0
        triton_tem_fused_flex_attention_1
        aten::_scaled_dot_product_flash_attention_for_cpu""",
    "other": """
        triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0
        triton_poi_fused__scaled_dot_product_flash_attention_clone_transpose_3
        triton_poi_fused_addmm_relu_0
        sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32
        void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel(at::TensorIteratorBase&)>(int)
        Memcpy DtoD (Device -> Device)
        aten::upsample_bilinear2d
        aten::silu""",
}


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of(kind):
    for name in KERNELS[kind].strip().splitlines():
        assert kind_of(name.strip()) == kind, name


def test_kernels_of_a_tuned_file_are_sparse(models):
    data = pathlib.Path(models[2].tuned_file).read_bytes()
    header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
    names = {key.split("/")[1] for key in header if key.startswith("cubin/")} - {"write_values_fp32_fp32"}
    assert names and {kind_of(name) for name in names} == {"sparse linear"}


def test_errors(models, tmp_path):
    _, sparse, patched = models
    called = []
    for options, error, text in [
        ({"rounds": 0}, ValueError, "rounds is 0"),
        ({"steps": -1}, ValueError, "steps is -1"),
        ({"tokens": 0}, ValueError, "tokens is 0"),
        ({"step": torch.zeros(1)}, TypeError, "functions without arguments"),
        ({"dense_step": 3}, TypeError, "functions without arguments"),
        ({"patched": sparse}, TypeError, "patched is a Sequential"),
        ({"patched": dataclasses.replace(patched, dry_run=True)}, SparsmithError, "dry run"),
        ({"output": tmp_path / "missing/page.html"}, SparsmithError, "missing, the folder of output, does not exist"),
    ]:
        with pytest.raises(error, match=text):
            report_model(**{"step": lambda: called.append(1), "patched": patched} | options)
    assert not called


@pytest.mark.gpu
def test_graph(gpu, tmp_path):
    dense = nn.Sequential(sparse_linear(1024, 512, sparsity=0.95), nn.ReLU(), sparse_linear(512, 1024, sparsity=0.95))
    dense = dense.to(gpu, torch.float16).eval()
    sparse = copy.deepcopy(dense)
    patched = sparsmith.optimize(sparse, **TUNE)
    x, graphs = torch.randn(1, 512, device=gpu, dtype=torch.float16), []
    with torch.no_grad():
        for model in (sparse, dense):
            model(x)
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[-1]):
                model(x)
    made = report_model(graphs[0].replay, patched, dense_step=graphs[1].replay, output=tmp_path / "page.html")
    assert len(patched.patched) == 2 and made.sparse.launches("sparse linear") >= 2
    assert made.sparse.us("sparse linear") > 0 and made.sparse.us("dense linear") == 0
    assert made.dense.launches("dense linear") >= 2 and made.dense.us("sparse linear") == 0
    assert made.sparse.launches("other") >= 1 and made.device == torch.cuda.get_device_name()
    assert 0 < made.allocated_bytes <= made.device_bytes
