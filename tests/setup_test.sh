#!/usr/bin/env bash
# Shows that cmake/setup.sh fails, with a sentence, where it cannot provide a part: a copy of it, among programs that
# stand in for dpkg-query, apt-get and python.
set -euo pipefail
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/tree/cmake" "$work/tree/.deps/cuda" "$work/tree/.deps/python/bin" "$work/bin"
cp "$source/cmake/setup.sh" "$source/cmake/fetch_cuda.py" "$work/tree/cmake/"
cp -r "$source/cmake/docs" "$work/tree/cmake/"
ln -s "$(realpath "$source/.deps/cuda/include")" "$work/tree/.deps/cuda/include"
mkdir "$work/tree/.deps/cuda/lib"
touch "$work/tree/.deps/cuda/lib/libnvrtc.so.13" "$work/tree/.deps/cuda/lib/libnvrtc-builtins.so.13.0"

# program NAME LINE...: a program of that name.
program() { printf '#!/bin/bash\n%s\n' "${@:2}" >"$work/bin/$1"; chmod 755 "$work/bin/$1"; }
for tool in bash env sed grep dirname readlink rm mkdir ln cmp cp chmod; do ln -s "$(command -v "$tool")" "$work/bin/"; done
# shellcheck disable=SC2016  # expanded in the programs
program dpkg-query 'for package in "${@:3}"; do echo "$package=installed"; done'
# shellcheck disable=SC2016
program apt-get 'echo "$@" >>"$APT_LOG"; exit "${APT_CODE:-0}"'
program chromium
program initdb
export APT_LOG=$work/apt.log

# expect EXIT_CODE TEXT [VARIABLE=VALUE...] [COMMAND...] GOAL: set-up's exit code and a part of what it prints.
expect() {
  local code=$1 text=$2 output outcome=0 words=("${@:3}")
  : >"$APT_LOG"
  output=$(env "PATH=$work/bin" "${words[@]:0:${#words[@]}-1}" "$work/tree/cmake/setup.sh" "${words[-1]}" 2>&1) || outcome=$?
  if ((outcome != code)) || [[ $output != *"$text"* ]]; then
    printf 'setup_test: expected exit code %s and "%s", got %s:\n%s\n' "$code" "$text" "$outcome" "$output" >&2
    exit 1
  fi
}
as_user=()
if ((EUID == 0)); then as_user=("$(command -v setpriv)" --reuid 65534 --clear-groups); fi

expect 0 "" test
expect 1 "unknown goal" everything
rm "$work/bin/chromium"
expect 0 "" build
expect 1 "apt-get install -y --no-install-recommends chromium" "${as_user[@]}" test
if ((EUID == 0)); then
  expect 1 "apt-get update fails" APT_CODE=100 test
  expect 1 "no browser" test
  grep -q "install .* chromium" "$APT_LOG"
fi
program google-chrome
expect 0 "" test
rm "$work/bin/initdb"
if ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null && ((EUID == 0)); then expect 1 "no PostgreSQL server" test; fi

# NVRTC that cannot be fetched, and a fetch that brings less than is needed.
rm "$work/tree/.deps/cuda/lib/libnvrtc-builtins.so.13.0"
# shellcheck disable=SC2016
program python 'exit "${PYTHON_CODE:-0}"'
cp "$work/bin/python" "$work/tree/.deps/python/bin/python"
cp "$work/bin/python" "$work/tree/.deps/python/bin/pip"
expect 3 "fetching NVRTC" SPARSMITH_NO_SYSTEM_CUDA=1 PYTHON_CODE=3 build
expect 1 "lacks NVRTC, its builtins or a header" SPARSMITH_NO_SYSTEM_CUDA=1 build

# Tools for the documentation that cannot be fetched; fetched; and not fetched again.
# shellcheck disable=SC2016
program python3 'mkdir -p "$3/bin"; echo "exit ${PIP_CODE:-0}" >"$3/bin/pip"; chmod 755 "$3/bin/pip"'
expect 1 "could not fetch the tools for the documentation" PIP_CODE=1 docs
expect 0 "fetching the tools" docs
expect 0 "" PIP_CODE=1 docs
