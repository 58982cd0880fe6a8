"""Runs a layer of a tuned file on PyTorch tensors through the C interface, and checks it against F.linear.

usage: run_layer.py LIBSPARSMITH TUNED MODEL TENSOR TOKENS       MODEL: the safetensors file that was tuned
TENSOR may be a group: then each member's output is a view of the group's. For weights tuned in the model's own type,
token-major, without epilogue. Exit code 0: agrees; 1: differs, or failed.
"""
import ctypes
import sys

import torch
from safetensors import safe_open

P, I, F, Z = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_size_t


class Array(ctypes.Structure):  # sparsmith_operand_array
    _fields_ = [("name", ctypes.c_char_p), ("data", P), ("ld", I)]


class Arguments(ctypes.Structure):  # sparsmith_run_arguments
    _fields_ = [("size", Z), ("tokens", I), ("operands", ctypes.POINTER(Array)), ("operand_count", Z),
                ("workspace", P), ("alpha", F), ("beta", F)]


class MemberView(ctypes.Structure):  # sparsmith_member_view
    _fields_ = [("size", Z), ("first_row", I), ("rows", I), ("offset", I), ("ld", I)]


def require(status):
    if status != 0:
        sys.exit(f"error: {lib.sparsmith_last_error().decode()}")


lib, tuned, file, name, n = ctypes.CDLL(sys.argv[1]), sys.argv[2].encode(), sys.argv[3], sys.argv[4], int(sys.argv[5])
lib.sparsmith_last_error.restype = lib.sparsmith_weight_member_name.restype = ctypes.c_char_p

SPMM = 0
model, weight_handle, op, space = P(), P(), P(), Z()
require(lib.sparsmith_model_load(tuned, None, ctypes.byref(model)))
require(lib.sparsmith_model_weight(model, name.encode(), ctypes.byref(weight_handle)))
require(lib.sparsmith_weight_operator(weight_handle, SPMM, ctypes.byref(op)))
require(lib.sparsmith_operator_workspace_bytes(op, I(n), ctypes.byref(space)))
members = []
while member := lib.sparsmith_weight_member_name(weight_handle, Z(len(members))):
    members.append(member.decode())
tensors = safe_open(file, "pt", device="cuda")
weights = {tensor: tensors.get_tensor(tensor).flatten(1) for tensor in members or [name]}
weight = torch.cat(list(weights.values()))
x = torch.randn(n, weight.shape[1], device="cuda").to(weight.dtype)
y = torch.full((n, weight.shape[0]), torch.nan, device="cuda", dtype=weight.dtype)
workspace = torch.empty(space.value + 1, device="cuda", dtype=torch.uint8)
arrays = (Array * 2)(Array(b"x", x.data_ptr()), Array(b"y", y.data_ptr()))
arguments = Arguments(ctypes.sizeof(Arguments), n, arrays, len(arrays), workspace.data_ptr())
require(lib.sparsmith_operator_run(op, ctypes.byref(arguments), P(torch.cuda.current_stream().cuda_stream)))

outputs = {} if members else {name: y}
for member in members:  # a member's output is a part of y, without a copy
    view = MemberView(ctypes.sizeof(MemberView))
    require(lib.sparsmith_operator_member(op, member.encode(), I(n), I(0), ctypes.byref(view)))
    outputs[member] = y.as_strided((n, view.rows), (view.ld, 1), view.offset)

agrees = True
for tensor, output in outputs.items():
    expected = torch.nn.functional.linear(x.double(), weights[tensor].double())
    error = ((output.double() - expected).norm() / expected.norm()).item()
    agrees &= error <= 2 * torch.finfo(weight.dtype).eps  # a NaN is not <= anything
    print(f"{tensor}: {tuple(output.shape)} {weight.dtype}: norm error {error:.2g} against F.linear")
sys.exit(0 if agrees else 1)
