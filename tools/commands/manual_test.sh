#!/usr/bin/env bash
# Man pages, completions, and docs/reference/commands.md say what the program's options are.
#
# usage: manual_test.sh FOLDER_OF_PROGRAMS
set -euo pipefail
source_tree=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
# shellcheck source=tests/support/expect.sh
source "$source_tree/tests/support/expect.sh"
fail() { echo "FAILED: $*"; exit 1; }

"$sparsmith" manual >commands.md
diff "$source_tree/docs/reference/commands.md" commands.md ||
  fail "docs/reference/commands.md is out of date: sparsmith manual >docs/reference/commands.md"

"$sparsmith" manual --folder share
commands=$("$sparsmith" --help | sed -n '/^Subcommands:/,$s/^  \([a-z]\+\) .*/\1/p')
[[ -n $commands ]] || fail "--help names no commands"
for command in $commands; do
  grep -q '^\.SH OPTIONS' "share/man/man1/sparsmith-$command.1" || fail "no page of $command"
  # Every long option of --help, where the manual names them: itself, or for each verb.
  for option in $("$sparsmith" "$command" --help | grep -o '^  \(-[a-z],\)\?--[a-z-]*' | grep -o -- '--.*'); do
    grep -qF -- "${option//-/\\-}" "share/man/man1/sparsmith-$command.1" || fail "the page of $command lacks $option"
  done
done

# complete WORD...: what bash offers for the last word.
# shellcheck disable=SC1091
source share/bash-completion/completions/sparsmith
complete_last() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _sparsmith
  echo "${COMPREPLY[*]}"
}
[[ $(complete_last sparsmith an) == analyze ]] || fail "an is not completed"
[[ $(complete_last sparsmith cache "") == "ls verify export import merge gc" ]] || fail "the verbs of cache"
[[ $(complete_last sparsmith tune --lay) == --layout ]] || fail "an option"
[[ $(complete_last sparsmith tune model --layout f) == feature_major ]] || fail "a value"
[[ $(complete_last sparsmith -v perf compare --fail-on "") == "slow kernel" ]] || fail "a value of a verb's option"
[[ -z $(complete_last sparsmith tune mo) ]] || fail "a file name is left to the shell"
for shell in zsh fish; do
  ! command -v $shell >/dev/null || "$sparsmith" completion $shell | $shell -n || fail "the script for $shell"
done
expect 2 "bash" "$sparsmith" completion powershell

# Colours are in a terminal alone, or by force, and never in a name.
draw=("$sparsmith" synth -o model.safetensors --weight $'a\x1b[31mb\x1b[2J:64x64:0.9:uniform')
"${draw[@]}" >/dev/null
"$sparsmith" analyze model.safetensors >plain.txt
CLICOLOR_FORCE=1 "$sparsmith" analyze model.safetensors >coloured.txt
CLICOLOR_FORCE=1 NO_COLOR=1 "$sparsmith" analyze model.safetensors >uncoloured.txt
! grep -q $'\x1b' plain.txt || fail "a file is coloured"
grep -q $'\x1b\\[1mweight' coloured.txt || fail "titles are not bold by force"
! grep -q $'\x1b\\[2J' coloured.txt || fail "a name clears the screen"
! grep -q $'a\x1b' coloured.txt || fail "a name of a table has colours"
cmp plain.txt uncoloured.txt || fail "NO_COLOR is not heard"
diff plain.txt <(sed 's/\x1b\[[0-9]*m//g' coloured.txt) || fail "colours shift columns"
echo "manual_test: all passed"
