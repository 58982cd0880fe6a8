#!/usr/bin/env bash
# Shows that a machine that lacks a part is noticed: hides each part in a mount namespace and runs the tests that use
# it. Each must fail, with a sentence that names the part. The tests are taken from the build's own list, so they are
# among those that `make test` runs. On demand, as root, after a build of preset ci.
#
# usage: hidden_parts.sh [nvrtc] [builtins] [worker] [browser] [postgresql]     default: all
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$PWD/build/ci
((EUID == 0)) || { echo "hidden_parts: needs root, for mount namespaces" >&2; exit 1; }

# Each hides its part for good: they are called inside a namespace. shellcheck does not see the calls.
# shellcheck disable=SC2317
{
hide_file() { mount --bind /dev/null "$1"; }
hide_libraries() {  # those of that name, wherever a loader may find them
  local file
  while IFS= read -r file; do hide_file "$file"; done < <(
    find -L /usr/local/cuda*/ /usr/lib /opt .deps/cuda/lib -maxdepth 4 -name "$1" -exec realpath {} + 2>/dev/null | sort -u)
}
hide_nvrtc() { hide_libraries 'libnvrtc.so*'; }
hide_builtins() { hide_libraries 'libnvrtc-builtins.so*'; }
hide_worker() {  # the one with its compiler inside, and the one that takes over from it
  local file
  for file in "$build"/bin/sparsmith-emulator*; do hide_file "$file"; done
}
hide_browser() {
  local name
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null; then hide_file "$(realpath "$(command -v "$name")")"; fi
  done
}
hide_postgresql() { mount -t tmpfs tmpfs /usr/lib/postgresql; }
}

# What must fail, and what it must say.
declare -A tests=(
  [nvrtc]='^KernelCompilerTest\.CompilesForEachArchitecture$|^ProgrammaticPtxTest\.|^ReferenceKernelTest\.'
  [builtins]='^KernelCompilerTest\.CompilesForEachArchitecture$|^ProgrammaticPtxTest\.|^ReferenceKernelTest\.'
  [worker]='^EmulatorWorkerTest\.ChecksGeneratedKernels$'
  [browser]='^report_browser_test$'
  [postgresql]='^PostgresTest\.AServerThatGoesAwayIsAnError$'
)
declare -A sentences=(
  [nvrtc]='libnvrtc.so.13 not found in .*; install it'
  [builtins]='libnvrtc-builtins.so.* which .* needs, not found in .*; install it'
  [worker]='sparsmith-emulator'
  [browser]='none of chromium.* is here to look at pages in; install chromium'
  [postgresql]='no PostgreSQL server here (package postgresql)'
)

if [[ ${1:-} == --hide ]]; then  # inside a namespace
  mount --make-rprivate /
  "hide_$2"
  shift 2
  unset LD_LIBRARY_PATH SPARSMITH_CUDA_LIBRARY_PATH
  exec "$@"
fi

failed=0
parts=("$@")
((${#parts[@]})) || parts=(nvrtc builtins worker browser postgresql)
for part in "${parts[@]}"; do
  all=$(ctest --test-dir "$build" -N -R "${tests[$part]}" | sed -n 's/^Total Tests: //p')
  output=$(unshare --mount "${BASH_SOURCE[0]}" --hide "$part" \
    ctest --test-dir "$build" --output-on-failure -R "${tests[$part]}" </dev/null 2>&1) && outcome=0 || outcome=$?
  red=$(grep -c '\*\*\*Failed' <<<"$output" || true)
  said=$(grep -om1 "${sentences[$part]}.*" <<<"$output" || true)
  if ((outcome != 0 && all > 0 && red >= all)) && [[ -n $said ]]; then
    echo "hidden_parts: without $part: $red of $all tests fail: $said"
  else
    printf '%s\n' "$output" | tail -n 30
    echo "hidden_parts: without $part: $red of $all tests fail (exit code $outcome), and say: ${said:-nothing of it}" >&2
    failed=1
  fi
done
exit "$failed"
