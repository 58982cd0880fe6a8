#!/usr/bin/env bash
# Shows that NVRTC from PyPI compiles kernels on a machine without a CUDA toolkit: in a test, in compiler processes, and
# in the programs of an installed tree, in a mount namespace without the toolkit and without the loader's cache. Needs
# root and a whole build; fetches NVRTC once, into .deps/pypi_nvrtc.
#
# usage: pypi_nvrtc.sh [BUILD_FOLDER]     default: build/ci
#
# Where namespaces cannot be made it says so, and fails if CI=true.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build/ci}")
programs=$build/bin
fail() { echo "pypi_nvrtc: $*" >&2; exit 1; }

if ! unshare --mount true 2>/dev/null; then
  [[ ${CI:-} != true ]] || fail "cannot make a mount namespace; run this as root"
  echo "pypi_nvrtc: not run: only root can make a mount namespace"
  exit 0
fi
nvrtc=$PWD/.deps/pypi_nvrtc
if [[ ! -d $nvrtc ]]; then
  [[ -x .deps/python/bin/pip ]] || python3 -m venv .deps/python
  .deps/python/bin/python cmake/fetch_cuda.py "$nvrtc" --nvrtc-alone || fail "NVRTC cannot be fetched from PyPI"
fi

# without_toolkit COMMAND...: where no folder of /usr/local/cuda* and no entry of the loader's cache is.
without_toolkit() {
  # shellcheck disable=SC2016  # expanded inside
  unshare --mount env -u LD_LIBRARY_PATH -u SPARSMITH_CUDA_LIBRARY_PATH bash -c '
    set -e
    mount --make-rprivate /
    for folder in /usr/local/cuda*; do
      if [[ -d $folder ]]; then mount -t tmpfs tmpfs "$(realpath "$folder")"; fi
    done
    mount --bind /dev/null /etc/ld.so.cache
    if [[ -d .deps/cuda/lib && ! -L .deps/cuda/lib ]]; then mount -t tmpfs tmpfs .deps/cuda/lib; fi
    exec "$@"' without_toolkit "$@"
}
with_pypi() { without_toolkit env SPARSMITH_CUDA_LIBRARY_PATH="$nvrtc/lib" "$@"; }

found=$(without_toolkit "$programs/kernel_compiler_test" 2>&1) && fail "NVRTC is found although it is hidden: this shows nothing"
grep -q "libnvrtc.so.13 not found in" <<<"$found" || fail "a hidden NVRTC is not said to be missing: $found"
with_pypi "$programs/kernel_compiler_test" --gtest_brief=1 ||
  fail "NVRTC of $nvrtc does not compile kernels"
with_pypi "$programs/compiler_pool_test" --gtest_brief=1 --gtest_filter='NvrtcPoolTest.*' ||
  fail "NVRTC of $nvrtc does not compile kernels in compiler processes"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/tree" >/dev/null
sparsmith=$work/tree/bin/sparsmith
model=$work/model.safetensors tuned=$work/model.tuned.safetensors
with_pypi "$sparsmith" synth -o "$model" --seed 1 --weight a.weight:512x512:0.9:uniform >"$work/log"
with_pypi "$sparsmith" tune "$model" -o "$tuned" --device emulator --no-cache --tokens 1 >"$work/log" 2>&1 ||
  fail "the installed program does not tune: $(tail -n 3 "$work/log")"
with_pypi python3 -B examples/check_choices.py "$sparsmith" "$tuned" emulator || fail "the installed program chose no kernel"
echo "pypi_nvrtc: NVRTC from PyPI compiles kernels without a toolkit"
