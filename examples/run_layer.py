"""Runs a layer of a tuned file on PyTorch tensors through the C interface, and checks it against F.linear.

usage: run_layer.py LIBSPARSMITH TUNED MODEL TENSOR [TOKENS]    MODEL: the safetensors file that was tuned
For weights tuned in token_major layout without epilogue. Exit code 0: agrees; 1: differs, or failed; 2: wrong usage.
"""
import ctypes
import sys

import torch
from safetensors import safe_open

P, I, F, Z = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_size_t


class Info(ctypes.Structure):  # sparsmith_operator_info
    S = ctypes.c_char_p
    _fields_ = [("size", Z), ("rows", I), ("cols", I), ("nnz", I), ("gpu_bytes", I), ("type", S), ("layout", S), ("epilogue", S)]


class Arguments(ctypes.Structure):  # sparsmith_run_arguments
    _fields_ = [("size", Z), ("x", P), ("y", P), ("tokens", I), ("bias", P), ("residual", P), ("workspace", P)]
    _fields_ += [("ldx", I), ("ldy", I), ("ldr", I), ("alpha", F), ("beta", F)]


def require(status):
    if status != 0:
        sys.exit(f"error: {lib.sparsmith_last_error().decode()}")


if len(sys.argv) < 5:
    print(__doc__, file=sys.stderr)
    sys.exit(2)
lib = ctypes.CDLL(sys.argv[1])
lib.sparsmith_last_error.restype = ctypes.c_char_p
tuned, file, name, n = sys.argv[2].encode(), sys.argv[3], sys.argv[4], int(sys.argv[5]) if len(sys.argv) > 5 else 1

model, op, info, space = P(), P(), Info(ctypes.sizeof(Info)), Z()
require(lib.sparsmith_model_load(tuned, 0, ctypes.byref(model)))
require(lib.sparsmith_model_operator(model, name.encode(), ctypes.byref(op)))
require(lib.sparsmith_operator_describe(op, ctypes.byref(info)))
require(lib.sparsmith_operator_workspace_bytes(op, I(n), ctypes.byref(space)))
if (info.layout, info.epilogue) != (b"token_major", b"none"):
    sys.exit(f"error: {name} was tuned for {info.layout.decode()} and the epilogue {info.epilogue.decode()}")

dtype = {b"fp32": torch.float32, b"fp16": torch.float16, b"bf16": torch.bfloat16}[info.type]
x = torch.randn(n, info.cols, device="cuda").to(dtype)
y = torch.full((n, info.rows), torch.nan, device="cuda", dtype=dtype)
workspace = torch.empty(space.value + 1, device="cuda", dtype=torch.uint8)
arguments = Arguments(ctypes.sizeof(Arguments), x.data_ptr(), y.data_ptr(), n, workspace=workspace.data_ptr(), alpha=1)
require(lib.sparsmith_operator_run(op, ctypes.byref(arguments), P(torch.cuda.current_stream().cuda_stream)))

with safe_open(file, "pt", device="cuda") as tensors:
    weight = tensors.get_tensor(name).flatten(1).to(dtype).double()
expected = torch.nn.functional.linear(x.double(), weight)
magnitude = torch.nn.functional.linear(x.double().abs(), weight.abs())
bound = 2 * (info.cols * 2**-24 * magnitude + torch.finfo(dtype).eps * expected.abs() + torch.finfo(dtype).tiny)
worst = ((y.double() - expected).abs() / bound).max().item()
print(f"{name}: {info.rows} x {info.cols} {info.type.decode()}, {n} tokens: error {worst:.3f} of the bound against F.linear")
sys.exit(0 if worst <= 1 else 1)  # a NaN is not <= 1
