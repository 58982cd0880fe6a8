"""Downloads NVRTC, the CUDA headers and the CUDA libraries that sparsmith opens at run time, as wheels from PyPI.

usage: fetch_cuda.py DESTINATION [--nvrtc-alone]

Leaves DESTINATION/include and DESTINATION/lib. The folder appears whole or not at all. cuBLASLt and cuSPARSE are
over a gigabyte and of use only with a GPU: without an NVIDIA driver, only their headers are kept, unless
SPARSMITH_GPU_LIBRARIES=1 asks for them, for another machine.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

HEADERS = ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-cccl==13.0.85"]
NVRTC = ["nvidia-cuda-nvrtc==13.0.88"]
BASELINES = ["nvidia-cublas==13.1.0.3", "nvidia-cusparse==12.6.3.3"]
BASELINES_NEED = ["nvidia-nvjitlink==13.0.88"]  # by cuSPARSE, at run time

PREFIX = "nvidia/cu13/"  # inside every CUDA 13 wheel


def wanted(member: str, libraries: bool) -> bool:
    if member.endswith("/") or not member.startswith(PREFIX):
        return False
    inside = member[len(PREFIX) :]
    return inside.startswith("include/") or (libraries and inside.startswith("lib/") and ".so" in inside and ".alt." not in inside)


def unpack(wheel: pathlib.Path, destination: pathlib.Path, libraries: bool) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if wanted(member.filename, libraries):
                member.filename = member.filename[len(PREFIX) :]
                archive.extract(member, destination)


def fetch(requirement: str, destination: pathlib.Path, libraries: bool) -> None:
    print(f"  {requirement}", flush=True)
    with tempfile.TemporaryDirectory(dir=destination.parent) as downloads:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
        pip += ["--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--dest", downloads, requirement]
        subprocess.run(pip, check=True, stdin=subprocess.DEVNULL)
        for wheel in pathlib.Path(downloads).glob("*.whl"):
            unpack(wheel, destination, libraries)


def main() -> None:
    destination = pathlib.Path(sys.argv[1])
    nvrtc_alone = sys.argv[2:] == ["--nvrtc-alone"]
    has_gpu = pathlib.Path("/dev/nvidiactl").exists() or os.environ.get("SPARSMITH_GPU_LIBRARIES") == "1"
    with tempfile.TemporaryDirectory(dir=destination.parent) as work:
        staging = pathlib.Path(work) / "cuda"
        staging.mkdir()
        for requirement in NVRTC:
            fetch(requirement, staging, libraries=True)
        for requirement in [] if nvrtc_alone else HEADERS:
            fetch(requirement, staging, libraries=False)
        for requirement in [] if nvrtc_alone else BASELINES + (BASELINES_NEED if has_gpu else []):
            fetch(requirement, staging, libraries=has_gpu)
        staging.rename(destination)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError:
        sys.exit("set-up: could not fetch CUDA; or install the CUDA 13 toolkit and name its folder in CUDA_PATH")
