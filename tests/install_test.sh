#!/usr/bin/env bash
# Installs a build, moves the tree, and shows that what is in it still works and needs nothing but glibc.
#
# usage: install_test.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "install_test: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/installed" >/dev/null
tree=$work/moved
mv "$work/installed" "$tree"

# No library but glibc's and our own, and no path of the build machine.
allowed='lib(c|m|dl|rt|pthread)\.so\.[0-9]+|ld-linux-x86-64\.so\.2|libsparsmith\.so\.[0-9.]+'
while IFS= read -r file; do
  dynamic=$(readelf -d "$file" 2>/dev/null) || continue
  foreign=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic" | grep -vxE "$allowed" || true)
  [[ -z $foreign ]] || fail "${file#"$tree"/} needs $foreign"
  run_path=$(sed -n 's/.*(R\(UN\)\{0,1\}\(PATH\|UNPATH\)).*\[\(.*\)\]/\3/p' <<<"$dynamic")
  # shellcheck disable=SC2016  # the loader's variable, not ours
  [[ -z $run_path || $run_path == '$ORIGIN'* ]] || fail "${file#"$tree"/} has the run path $run_path"
done < <(find "$tree/bin" "$tree/lib" -type f 2>/dev/null)
if grep -rqF "$source" "$tree/lib/cmake"; then fail "the CMake package names the source tree"; fi

# A program of somebody else finds the package, links and runs.
cmake -S "$source/tests/install_consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$tree" >/dev/null
cmake --build "$work/consumer" >/dev/null
"$work/consumer/consumer"
"$work/consumer/c_consumer"

# The library shows its interface and nothing else.
foreign=$(nm -D --defined-only "$tree"/lib/libsparsmith.so | awk '{ print $3 }' | grep -vE '^(sparsmith_|_ZNK?9sparsmith)' || true)
[[ -z $foreign ]] || fail "libsparsmith.so exports $foreign"

# The examples, where there is a CUDA runtime to build it with.
if [[ -f ${CUDA_PATH:-/usr/local/cuda}/lib64/libcudart_static.a ]]; then
  cmake -S "$tree/share/doc/sparsmith/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$tree" >/dev/null
  cmake --build "$work/examples" >/dev/null
  "$work/examples/run_layer" 2>/dev/null && fail "run_layer without arguments succeeds" || (($? == 2)) || fail "run_layer does not start"
  "$work/examples/run_layer" missing.safetensors x 2>"$work/log" && fail "run_layer without a file succeeds" || (($? == 1)) || fail "run_layer aborts"
  grep -q "^error: not found: " "$work/log" || fail "run_layer does not say that the file is missing"
fi

if [[ -x $tree/bin/sparsmith ]]; then
  env -i "$tree/bin/sparsmith" --version
  env -i "$tree/bin/sparsmith" doctor >/dev/null || (($? == 4)) || fail "doctor fails in the moved tree"
fi
