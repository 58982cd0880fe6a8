"""What a user does first with the installed wheel, on a machine without a GPU, a toolkit or a compiler: optimizes a
pruned model, runs it on the CPU, and asks the command what there is."""

import os
import pathlib
import subprocess
import sys

import torch
from torch import nn

import sparsmith

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 512)).eval()
sparsmith.prune.magnitude_(model, 0.9)
x = torch.randn(4, 1024)
with torch.no_grad():
    expected = model(x)
    report = sparsmith.optimize(model, tokens=(1, 8), output="model.tuned.safetensors", progress=False)
    print(report)
    assert len(report.patched) == 2, "both layers become sparse"
    assert "predicted" in str(report), "there is no GPU to measure on"
    assert report.bytes < report.dense_bytes
    torch.testing.assert_close(model(x), expected, atol=1e-4, rtol=1e-4)

command = pathlib.Path(sys.executable).parent / "sparsmith"
doctor = subprocess.run([command, "doctor"], check=False, capture_output=True, text=True).stdout
print(doctor)
nvrtc = next(line for line in doctor.splitlines() if line.startswith("NVRTC"))
assert "yes" in nvrtc, "NVRTC comes with PyTorch's wheels"
shown = subprocess.run([command, "show", "model.tuned.safetensors", "--json"], check=True, capture_output=True, text=True)
assert "sm_90" in shown.stdout, "kernels were compiled"
assert not os.path.exists("/usr/bin/c++")
print(f"passed with torch {torch.__version__}, Python {sys.version.split()[0]}")
