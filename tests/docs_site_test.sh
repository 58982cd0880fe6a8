#!/usr/bin/env bash
# Shows that the site of `make docs` needs no network: a browser opens it as files, without a network where namespaces
# can be made, and the search finds a word; no page names a script, style or picture of another server.
#
# usage: docs_site_test.sh [SITE]       default: build/docs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
site=$(realpath "${1:-build/docs}")
fail() { echo "docs_site_test: $*" >&2; exit 1; }

foreign=$(grep -rhoE --include='*.html' '<(script|link|img|iframe)[^>]* (src|href)="?(https?:)?//[^ >"]*' "$site" || true)
[[ -z $foreign ]] || fail "pages load from elsewhere: $foreign"

browser=$(command -v chromium chromium-browser google-chrome google-chrome-stable | head -n 1) || fail "no browser"
alone=()
if unshare --net true 2>/dev/null; then alone=(unshare --net); fi
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
# results WORD: what the search's line above its results says.
results() {
  "${alone[@]}" timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$profile" \
    --virtual-time-budget=10000 --dump-dom "file://$site/index.html?q=$1" 2>/dev/null |
    grep -A 2 'class="md-search-result__meta"' || true
}
grep -q "[1-9][0-9]* matching documents" <<<"$(results sparsity)" || fail "the search finds no page with \"sparsity\""
grep -q "No matching documents" <<<"$(results nosuchwordatall)" || fail "the search does not say that it finds nothing"
echo "the site needs no network"
