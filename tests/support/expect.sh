# shellcheck shell=bash
# For tests of the program as a user meets it; sourced with the folder of programs as $1. Leaves the test in a folder of
# its own, with a cache of its own, and defines `sparsmith` and `expect`.
sparsmith=$(realpath "$1")/sparsmith
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export XDG_CACHE_HOME=$folder/cache
cd "$folder"

# expect CODE WORD COMMAND...: the exit code, and a word that the output holds. The output stays in the file `output`.
expect() {
  local code=$1 word=$2 got=0
  shift 2
  "$@" >output 2>&1 || got=$?
  if [[ $got != "$code" ]] || ! grep -q -- "$word" output; then
    echo "FAILED: $* (exit code $got, expected $code and \"$word\")"
    cat output
    exit 1
  fi
}
