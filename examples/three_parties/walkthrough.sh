#!/usr/bin/env bash
# From three parties' raw tables to predictions, on the command line: bash walkthrough.sh [FOLDER]
#
# Works in a new FOLDER (default: runs/three_parties), with the `fedsdg` and `python` that are on the PATH, in about a
# minute. It checks what it tells: the exit code is 0 only if everything happened.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=${1:-runs/three_parties}
export COLUMNS=120  # tables that are wide enough to read

say() { printf '\n# %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }
fail() { printf 'walkthrough: %s\n' "$*" >&2; exit 1; }
# expect TEXT FILE: the file holds the text, wherever its lines were broken.
expect() { tr -s ' \n' ' ' < "$2" | grep -qF -- "$1" || fail "expected in $2: $1"; }
steps_done() { if [[ -f $1 ]]; then wc -l < "$1"; else echo 0; fi; }

[[ ! -e $work ]] || fail "$work exists; remove it, or name another folder"

say "Every party has its own table: other people, another order, gaps, dates, free text."
show python "$here/make_tables.py" "$work"
cp "$here/job.toml" "$work/"
cd "$work"

say "What are the columns taken for? Each party can look at its own before anybody talks."
show fedsdg inspect job.toml | tee inspect.txt
expect "never selected: constant" inspect.txt
expect "never selected: repeats column" inspect.txt
expect "left out: hardly two cells are" inspect.txt

say "Whom do all three know? They find out without showing each other anybody else."
show fedsdg align job.toml --out common | tee align.txt
expect "Nobody was shown an id that it does not hold." align.txt
for party in bank phone_company web_shop; do
    [[ -s common/$party/$party.parquet ]] || fail "$party got no common rows"
done

say "What will it cost?"
show fedsdg estimate job.toml | tee estimate.txt
expect "at most" estimate.txt

say "Learn together, encrypted. After 30 steps somebody presses Ctrl-C."
echo '$ fedsdg run job.toml --out run'
fedsdg run job.toml --out run > interrupted.txt 2>&1 &
running=$!
trap 'kill "$running" 2> /dev/null || true' EXIT
until [[ $(steps_done run.partial/metrics.jsonl) -ge 30 ]]; do
    kill -0 "$running" 2> /dev/null || { cat interrupted.txt; fail "the run ended too early"; }
    sleep 0.1
done
kill -INT "$running"
code=0
wait "$running" || code=$?
trap - EXIT
cat interrupted.txt
[[ $code -eq 130 ]] || fail "an interrupted run ends with the code 130, not $code"
expect "It goes on with: fedsdg resume" interrupted.txt
[[ ! -e run ]] || fail "an unfinished run has no folder of its own"

say "Nothing is lost."
show fedsdg resume run | tee run.txt
expect "rows nobody learned from" run.txt
[[ -f run/selection.json && ! -e run.partial ]] || fail "the run left no folder"

say "A month later: new people. The web shop does not know all of them."
show fedsdg predict run --rows next_month --out scores.csv | tee predict.txt
expect "not held by web_shop" predict.txt
head -4 scores.csv

say "One of them again, and one whom the web shop does not know."
known=$(awk -F, '$NF == "scored" { print $1; exit }' scores.csv)
unknown=$(awk -F, '$NF == "not held by web_shop" { print $1; exit }' scores.csv)
show fedsdg predict run --rows next_month --ids "$known,$unknown" --out two.csv | tee two.txt
cat two.csv
expect "scored 1 of 2 ids" two.txt
grep -E "^($known|$unknown)," scores.csv | cmp - <(tail -n +2 two.csv) || fail "a row scores alone as among others"

say "Somebody whom the bank does not know itself is refused."
code=0
show fedsdg predict run --rows next_month --ids C000000 --out nobody.csv 2> nobody.txt || code=$?
cat nobody.txt
[[ $code -eq 2 && ! -e nobody.csv ]] || fail "an unknown id was not refused"

say "Was it right? In a made-up story that can be looked up."
show python "$here/judge.py" .
