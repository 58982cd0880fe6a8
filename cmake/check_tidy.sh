#!/usr/bin/env bash
# clang-tidy over the .cc files that differ from a base commit, or whose header does, with the compile commands of
# build/ci.
#
# usage: check_tidy.sh [BASE]      default: where this branch left origin/main, or else the last 20 commits
#   TIDY_BUDGET=600                seconds after which no further file is begun; the rest is listed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

budget=${TIDY_BUDGET:-600}
base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || true)}
if [[ -z $base || $(git rev-parse "$base") == $(git rev-parse HEAD) ]]; then
  base=$(git rev-list --max-count=21 --first-parent HEAD | tail -n 1)
fi

# Only what build/ci compiles: a file of another platform or option has no compile command.
files=()
while IFS= read -r file; do
  if grep -qF "$PWD/$file\"" build/ci/compile_commands.json; then files+=("$file"); fi
done < <(git diff --name-only --diff-filter=d "$base" -- '*.cc' '*.h' | sed 's/\.h$/.cc/' | sort -u)
echo "tidy: ${#files[@]} files to check against $(git rev-parse --short "$base")"
if ((${#files[@]} == 0)); then exit 0; fi

export TIDY_DEADLINE=$(($(date +%s) + budget))
# shellcheck disable=SC2016  # expanded by the inner shell
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c '
  if (($(date +%s) > TIDY_DEADLINE)); then
    echo "tidy: no time left for $0"
  else
    clang-tidy-19 --quiet -p build/ci "$0" 2>/dev/null </dev/null || { echo "tidy: $0 fails"; exit 1; }
  fi'
