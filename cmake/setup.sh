#!/usr/bin/env bash
# Makes a fresh Debian 12 or Ubuntu 24.04 machine able to build and test sparsmith: installs the Debian packages it
# lacks, and lets .deps/cuda/{include,lib} be the CUDA toolkit of the machine, or NVRTC and the CUDA headers from
# PyPI where there is none. Does nothing, quickly, when nothing is missing.
#
#   SPARSMITH_NO_SYSTEM_CUDA=1   take CUDA from PyPI even where a toolkit is installed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ make cmake ninja-build ccache git ca-certificates python3 python3-venv
  llvm-19-dev libclang-19-dev clang-19 clang-format-19 clang-tidy-19
  nlohmann-json3-dev libsqlite3-dev libsqlitecpp-dev libcli11-dev libfmt-dev libspdlog-dev libxxhash-dev
  libboost-context-dev zlib1g-dev libeigen3-dev libgtest-dev libgmock-dev node-d3 libpq-dev
)
# For tests alone, which are skipped without: taken where apt has them, and as root alone.
browser=chromium            # looks at report pages
database_server=postgresql  # keeps performance histories
cuda_headers=(cuda.h nvrtc.h cublasLt.h cusparse.h)
oldest_cuda=13000  # as CUDA_VERSION in cuda.h

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "set-up: not a Debian or Ubuntu system; install what these packages hold yourself: ${packages[*]}"
    return
  fi
  local installed missing=() package
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
  apt-get update -qq </dev/null
  apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
}

# install_for_tests PACKAGE WHAT: what is left out without it.
install_for_tests() {
  local package=$1 what=$2
  if ! apt-cache show "$package" >/dev/null 2>&1; then
    echo "set-up: no package $package here: $what"
    return
  fi
  echo "set-up: installing $package"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" </dev/null >/dev/null ||
    echo "set-up: $package could not be installed: $what"
}

install_what_tests_use() {
  if ((EUID != 0)) || ! command -v apt-get >/dev/null; then return; fi
  command -v "$browser" >/dev/null || install_for_tests "$browser" "report pages are not looked at"
  compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null ||
    install_for_tests "$database_server" "histories are not kept in PostgreSQL"
}

# Is <include folder> <library folder> a CUDA that serves us?
is_usable_cuda() {
  local include=$1 lib=$2 header version
  for header in "${cuda_headers[@]}"; do
    [[ -f $include/$header ]] || return 1
  done
  compgen -G "$lib/libnvrtc.so*" >/dev/null || return 1
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
  fi
}

install_packages
install_what_tests_use
find_or_fetch_cuda
