#!/usr/bin/env bash
# Makes a fresh Debian 12, Debian 13 or Ubuntu 24.04 machine able to build and test sparsmith: installs the packages it
# lacks, and lets .deps/cuda/{include,lib} be the CUDA toolkit of the machine, or NVRTC and the CUDA headers from PyPI
# where there is none. Does nothing, quickly, when nothing is missing. Fails, with a sentence, when something cannot be
# provided.
#
# usage: setup.sh [build|test|docs|torch]   for building and running alone; for tests and checks too (the default); for
#                                           the documentation site: its tools go into .deps/docs; or for the tests of
#                                           the Python package: .deps/torch is an environment with PyTorch, of 6 GB,
#                                           that all checkouts of this user share in ~/.cache/sparsmith
#   SPARSMITH_NO_SYSTEM_CUDA=1     take CUDA from PyPI even where a toolkit is installed
#   SPARSMITH_GPU_LIBRARIES=1      with CUDA from PyPI: cuBLASLt and cuSPARSE too, though this machine has no GPU
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
goal=${1:-test}
fail() { echo "set-up: $*" >&2; exit 1; }
[[ " build test docs torch " == *" $goal "* ]] || fail "unknown goal $goal; build, test, docs or torch"

packages=(
  g++ make cmake ninja-build ccache git ca-certificates python3 python3-venv llvm-19-dev libclang-19-dev clang-19
  nlohmann-json3-dev libsqlite3-dev libsqlitecpp-dev libcli11-dev libfmt-dev libspdlog-dev libxxhash-dev
  libboost-context-dev zlib1g-dev libminizip-dev node-d3 libpq-dev
)
python_packages=(make ca-certificates python3 python3-venv)
test_packages=(clang-format-19 clang-tidy-19 libbenchmark-dev libeigen3-dev libgtest-dev libgmock-dev)
browsers=(chromium chromium-browser google-chrome google-chrome-stable)  # one of them looks at report pages
cuda_headers=(cuda.h nvrtc.h cublasLt.h cusparse.h)
oldest_cuda=13000  # as CUDA_VERSION in cuda.h

has_browser() { command -v "${browsers[@]}" >/dev/null; }
has_database_server() { compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null || command -v initdb >/dev/null; }
has_llvm() { [[ -f /usr/lib/llvm-19/lib/cmake/llvm/LLVMConfig.cmake && -d /usr/lib/llvm-19/include/clang ]]; }

install_packages() {
  local installed missing=() package
  if [[ $goal == docs || $goal == torch ]]; then packages=("${python_packages[@]}"); fi
  if [[ $goal == test ]]; then
    packages+=("${test_packages[@]}")
    has_browser || missing+=(chromium)
    has_database_server || missing+=(postgresql)
  fi
  if ! command -v dpkg-query >/dev/null; then
    echo "set-up: not a Debian or Ubuntu system; install what these packages hold yourself: ${packages[*]} ${missing[*]}"
    return
  fi
  # shellcheck disable=SC2016  # the braces are dpkg's
  installed=$(dpkg-query -W -f='${Package}=${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qx "$package=installed" <<<"$installed" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then return; fi

  if ((EUID != 0)); then
    echo "set-up: some packages are missing. Run this, then try again:" >&2
    echo "  sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends ${missing[*]}'" >&2
    exit 1
  fi
  echo "set-up: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq </dev/null || fail "apt-get update fails: is a mirror of Debian or Ubuntu reached?"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null ||
    fail "apt-get cannot install all of these: ${missing[*]}"
}

# What a build or a test would else leave out.
check_parts() {
  has_llvm || fail "no LLVM and clang 19 in /usr/lib/llvm-19: the emulator, which checks kernels, needs them"
  [[ $goal == test ]] || return 0
  has_browser || fail "no browser: tests look at report pages in one of ${browsers[*]}"
  has_database_server || fail "no PostgreSQL server: tests keep performance histories in one"
}

# Is <include folder> <library folder> a CUDA that serves us?
is_usable_cuda() {
  local include=$1 lib=$2 header version
  for header in "${cuda_headers[@]}"; do
    [[ -f $include/$header ]] || return 1
  done
  compgen -G "$lib/libnvrtc.so*" >/dev/null || return 1
  compgen -G "$lib/libnvrtc-builtins.so*" >/dev/null || return 1
  version=$(sed -n 's/^#define CUDA_VERSION *\([0-9]*\).*/\1/p' "$include/cuda.h")
  ((${version:-0} >= oldest_cuda))
}

# Prints the root of the machine's toolkit, if there is one.
system_cuda() {
  local nvcc root
  nvcc=$(command -v nvcc || true)
  for root in "${CUDA_PATH:-}" "${CUDA_HOME:-}" "${nvcc:+$(dirname "$(dirname "$(readlink -f "$nvcc")")")}" \
    /usr/local/cuda /usr/local/cuda-13*; do
    if [[ -n $root ]] && is_usable_cuda "$root/include" "$root/lib64"; then
      echo "$root"
      return
    fi
  done
}

find_or_fetch_cuda() {
  local from_pypi=${SPARSMITH_NO_SYSTEM_CUDA:-} root
  if is_usable_cuda .deps/cuda/include .deps/cuda/lib && [[ -z $from_pypi || ! -L .deps/cuda/include ]]; then return; fi
  rm -rf .deps/cuda
  mkdir -p .deps
  root=$([[ -n $from_pypi ]] || system_cuda)
  if [[ -n $root ]]; then
    mkdir .deps/cuda
    ln -s "$root/include" .deps/cuda/include
    ln -s "$root/lib64" .deps/cuda/lib
    echo "set-up: CUDA toolkit in $root"
  else
    echo "set-up: no CUDA 13 toolkit; fetching NVRTC and the CUDA headers into .deps/cuda"
    [[ -x .deps/python/bin/pip ]] || python3 -m venv .deps/python
    .deps/python/bin/python cmake/fetch_cuda.py .deps/cuda
    is_usable_cuda .deps/cuda/include .deps/cuda/lib ||
      fail "what was fetched into .deps/cuda lacks NVRTC, its builtins or a header; kernels cannot be compiled"
  fi
}

# mkdocs-material and hadolint, in the versions of cmake/docs/requirements.txt.
fetch_docs_tools() {
  if cmp -s cmake/docs/requirements.txt .deps/docs/requirements.txt; then return; fi
  echo "set-up: fetching the tools for the documentation into .deps/docs"
  rm -rf .deps/docs
  python3 -m venv .deps/docs
  .deps/docs/bin/pip --disable-pip-version-check --no-input install --quiet --no-cache-dir --only-binary :all: \
    --require-hashes -r cmake/docs/requirements.txt || fail "could not fetch the tools for the documentation from PyPI"
  cp cmake/docs/requirements.txt .deps/docs/requirements.txt
}

# PyTorch and what the tests of the Python package import, in the versions of python/tests/requirements.txt.
fetch_torch() {
  local wanted=python/tests/requirements.txt cache environment
  cache=${XDG_CACHE_HOME:-$HOME/.cache}/sparsmith
  environment=$cache/torch-$(sha256sum <<<"$(python3 --version; cat "$wanted")" | cut -c1-12)
  mkdir -p .deps "$cache"
  exec 9>"$cache/torch.lock"
  flock 9  # another checkout may be at it
  if ! cmp -s "$wanted" "$environment/requirements.txt"; then
    echo "set-up: fetching PyTorch into $environment"
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" --disable-pip-version-check --no-input install --quiet --no-cache-dir --no-deps \
      --only-binary :all: --require-hashes -r "$wanted" || fail "could not fetch PyTorch from PyPI"
    cp "$wanted" "$environment/requirements.txt"
  fi
  exec 9>&-
  ln -sfn "$environment" .deps/torch
}

install_packages
if [[ $goal == docs ]]; then
  fetch_docs_tools
elif [[ $goal == torch ]]; then
  fetch_torch
else
  check_parts
  find_or_fetch_cuda
fi
