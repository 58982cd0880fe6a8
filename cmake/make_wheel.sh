#!/usr/bin/env bash
# Builds dist/sparsmith-<version>-py3-none-manylinux_2_36_x86_64.whl: the Python package with its library and programs.
# The build needs no PyTorch. auditwheel checks that the wheel needs no more than the tag promises.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools=.deps/wheel
if ! cmp -s cmake/wheel/requirements.txt "$tools/requirements.txt"; then
  echo "wheel: fetching the tools into $tools"
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" --disable-pip-version-check --no-input install --quiet --no-cache-dir --only-binary :all: \
    --require-hashes -r cmake/wheel/requirements.txt
  cp cmake/wheel/requirements.txt "$tools/requirements.txt"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
"$tools/bin/python" -m build --wheel --no-isolation --outdir "$work" .
mkdir -p dist
PATH=$PWD/$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat manylinux_2_36_x86_64 --only-plat -w dist "$work"/*.whl
ls -l dist
