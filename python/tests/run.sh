#!/usr/bin/env bash
# Runs a file of Python tests on a build tree: run.sh BUILD FILE. Exit code 77, which skips the test, where set-up has
# made no environment with PyTorch.
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=.deps/torch/bin/python
if [[ ! -x $python ]]; then
  echo "no PyTorch for tests: cmake/setup.sh torch fetches it"
  exit 77
fi
export SPARSMITH_ROOT=$build PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
exec "$python" -m pytest -q -p no:cacheprovider "python/tests/$2"
