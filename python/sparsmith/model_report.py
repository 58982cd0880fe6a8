"""Time, bytes and profile of a step of a patched model, as text and as an HTML page."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from sparsmith._library import SparsmithError, version
from sparsmith.patch import PatchReport, _bytes

KINDS = ("sparse linear", "dense linear", "attention", "other")

# The first pattern that fits a name gives its kind. Generated kernels are extern "C": their names begin with the family
# or the pass, the type and the layout of x (generator/kernel_parts.cc). torch.compile names a fused kernel after all
# operators whose parts it computes: only its templates (triton_tem) are products or attention.
_PATTERNS = {
    r"(?!triton_)[a-z]\w*_(fp32|fp16|bf16)_(tm|fm)(_\w+)?|relayout_(fp32|fp16|bf16)": "sparse linear",
    r"sparsmith::linear(_out)?": "sparse linear",
    r"triton_(?!tem_).*": "other",
    r"(?i:.*(flash|fmha|attention|sdpa).*)": "attention",
    r"(?i:.*(conv|fprop|dgrad|wgrad).*)": "other",
    r"(?i:.*(gemm|gemv|nvjet|cutlass|splitk).*)|triton_tem_\w*mm\w*": "dense linear",
    r"(aten|mkldnn)::_?(\w+_)?(linear(_\w+)?|matmul|(add|b|badd)?(mm|mv))": "dense linear",
}


def kind_of(name: str) -> str:
    """The kind of a kernel on a GPU, or of an operator on the CPU, by its name: one of ``KINDS``."""
    return next((kind for pattern, kind in _PATTERNS.items() if re.fullmatch(pattern, name, re.DOTALL)), "other")


@dataclasses.dataclass(frozen=True)
class KernelTime:
    """A kernel in a step; an operator where the step runs on the CPU."""

    name: str
    kind: str  # "sparse linear", "dense linear", "attention" or "other"
    us: float  # microseconds a step, of all launches; of an operator: without the operators that it calls
    launches: float  # a step


@dataclasses.dataclass(frozen=True)
class StepProfile:
    """A step of a model."""

    ms: float  # a step, without the profiler: median of the rounds
    kernels: list[KernelTime]  # of a step under the profiler, the longest first

    def us(self, kind: str) -> float:
        """Microseconds of the kernels of a kind: "sparse linear", "dense linear", "attention" or "other"."""
        return sum(kernel.us for kernel in self.kernels if kernel.kind == kind)

    def launches(self, kind: str) -> float:
        """Launches of the kernels of a kind."""
        return sum(kernel.launches for kernel in self.kernels if kernel.kind == kind)

    @property
    def between_us(self) -> float:
        """Microseconds in which no kernel runs: the step's time minus that of its kernels. 0 where kernels overlap, or
        where the profiler slows them, by more than that."""
        return max(0.0, 1e3 * self.ms - sum(kernel.us for kernel in self.kernels))


@dataclasses.dataclass(frozen=True)
class ModelReport:
    """What :func:`report_model` measured. Text: a short table."""

    patched: PatchReport
    tokens: int  # of a step
    sparse: StepProfile
    dense: StepProfile | None
    device: str  # the name of the GPU; "CPU" where the step launches no kernels on a GPU
    allocated_bytes: int | None  # of the process's tensors on the GPU, dense model included; None on the CPU
    device_bytes: int | None  # in use on the GPU, by all processes; None on the CPU

    @property
    def gain(self) -> float | None:
        """Dense time of a step over sparse time."""
        return self.dense.ms / self.sparse.ms if self.dense else None

    @property
    def tokens_per_s(self) -> float:
        """Of the patched model."""
        return 1e3 * self.tokens / self.sparse.ms

    @property
    def dense_tokens_per_s(self) -> float | None:
        return 1e3 * self.tokens / self.dense.ms if self.dense else None

    def save(self, path: str | os.PathLike) -> None:
        """Writes the page: one HTML file without scripts, which loads nothing. Raises OSError."""
        from sparsmith.report_page import page

        pathlib.Path(path).write_text(page(self), encoding="utf-8")

    def __str__(self) -> str:
        rows = [("", "dense", "sparse", ""), *summary_rows(self), *kind_rows(self)]
        return "\n".join([facts(self), *(f"{a:<22}{b:>28}{c:>28}{d:>8}".rstrip() for a, b, c, d in rows)])


def report_model(step: Callable[[], object], patched: PatchReport, *, dense_step: Callable[[], object] | None = None,
                 tokens: int = 1, output: str | os.PathLike | None = None, rounds: int = 7,
                 steps: int = 10) -> ModelReport:
    """Measures a step of a patched model, and writes a page about it.

    ``step()`` runs the step, such as ``graph.replay`` of a CUDA graph or ``lambda: model(x)``. ``dense_step()`` is the
    same step of the dense model; rounds of both alternate. A round has ``steps`` steps, and the median of ``rounds``
    counts. Each step runs three times before. ``tokens``: the tokens that a step makes. ``output``: the path of the
    HTML page. Steps run in the caller's mode: for inference, call this under ``torch.no_grad()``.

    On a GPU, CUDA events on the current stream take the time, and the profile has kernels. On the CPU it has operators.
    The kind of a kernel follows from its name: "sparse linear" are all kernels of sparsmith; "dense linear" are
    products of cuBLAS, CUTLASS and the templates of torch.compile, also those in attention without a kernel of its own.

    Raises SparsmithError for a report of a dry run, and if the folder of ``output`` does not exist; ValueError for
    numbers below 1; TypeError for arguments of another type.
    """
    if not callable(step) or not (dense_step is None or callable(dense_step)):
        raise TypeError("step and dense_step are functions without arguments, such as lambda: model(x)")
    if not isinstance(patched, PatchReport):
        raise TypeError(f"patched is a {type(patched).__name__}: give the PatchReport of patch_model or optimize")
    for name, number in (("tokens", tokens), ("rounds", rounds), ("steps", steps)):
        if number < 1:
            raise ValueError(f"{name} is {number}: it is at least 1")
    if patched.dry_run:
        raise SparsmithError("the report is of a dry run, which patches nothing: call patch_model without dry_run")
    if output is not None and not (folder := pathlib.Path(output).absolute().parent).is_dir():
        raise SparsmithError(f"{folder}, the folder of output, does not exist")
    functions = [step] if dense_step is None else [step, dense_step]
    for function in functions:
        for _ in range(3):
            function()
    taken = [[_round_ms(function, steps) for function in functions] for _ in range(rounds)]
    memory = (torch.cuda.memory_allocated(), _used_bytes()) if torch.cuda.is_initialized() else (None, None)
    profiles = [_kernels(function, steps) for function in functions]
    on_gpu = profiles[0][1]
    measured = [StepProfile(statistics.median(times), kernels)
                for times, (kernels, _) in zip(zip(*taken, strict=True), profiles, strict=True)]
    report = ModelReport(patched, tokens, measured[0], measured[1] if dense_step else None,
                         torch.cuda.get_device_name() if on_gpu else "CPU", *(memory if on_gpu else (None, None)))
    if output is not None:
        report.save(output)
    return report


def _used_bytes() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


def _round_ms(step: Callable[[], object], steps: int) -> float:
    """Milliseconds a step. CUDA events take the time of steps on the CPU, too."""
    if not torch.cuda.is_initialized():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return 1e3 * (time.perf_counter() - start) / steps
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(steps):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / steps


def _kernels(step: Callable[[], object], steps: int) -> tuple[list[KernelTime], bool]:
    """The kernels of a step on the GPU, and True; if there are none, its operators on the CPU, and False."""
    def run(activity: ProfilerActivity) -> list:
        with profile(activities=[activity], acc_events=True) as profiler:
            for _ in range(steps):
                step()
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
        return [event for event in profiler.key_averages() if not event.is_user_annotation]

    rows = []
    if torch.cuda.is_initialized():
        rows = [(event.key, event.self_device_time_total, event.count) for event in run(ProfilerActivity.CUDA)
                if event.device_type == DeviceType.CUDA]
    on_gpu = bool(rows)
    if not on_gpu:
        rows = [(event.key, event.self_cpu_time_total, event.count) for event in run(ProfilerActivity.CPU)]
    kernels = [KernelTime(name, kind_of(name), us / steps, count / steps) for name, us, count in rows]
    return sorted(kernels, key=lambda kernel: -kernel.us), on_gpu


def facts(report: ModelReport) -> str:
    return f"{report.device}, torch {torch.__version__}, sparsmith {version}; {len(report.patched.patched)} of " \
           f"{len(report.patched.layers)} linear layers are sparse"


def unit(report: ModelReport) -> str:
    """The parts of a profile."""
    return "operators" if report.device == "CPU" else "kernels"


def summary_rows(report: ModelReport) -> Iterator[tuple[str, str, str, str]]:
    """Rows: name, dense, sparse, ratio."""
    dense, patched = report.dense, report.patched
    yield ("time of a step", f"{dense.ms:,.3f} ms" if dense else "", f"{report.sparse.ms:,.3f} ms",
           f"{report.gain:.2f}x" if dense else "")
    yield "tokens/s", f"{report.dense_tokens_per_s:,.1f}" if dense else "", f"{report.tokens_per_s:,.1f}", ""
    yield ("linear layers", _bytes(patched.dense_bytes), _bytes(patched.bytes),
           f"{patched.bytes / max(1, patched.dense_bytes):.2f}x")
    if report.allocated_bytes is not None:
        yield "allocated by process", "", _bytes(report.allocated_bytes), ""
        yield "in use on the GPU", "", _bytes(report.device_bytes), ""


def kind_rows(report: ModelReport) -> Iterator[tuple[str, str, str, str]]:
    """Rows of the profile: kind, dense, sparse, nothing."""
    def cell(step: StepProfile | None, kind: str) -> str:
        return f"{step.us(kind):,.1f} us, {step.launches(kind):,.0f} launches" if step else ""

    for kind in KINDS:
        yield kind, cell(report.dense, kind), cell(report.sparse, kind), ""
    yield (f"between {unit(report)}", f"{report.dense.between_us:,.1f} us" if report.dense else "",
           f"{report.sparse.between_us:,.1f} us", "")
