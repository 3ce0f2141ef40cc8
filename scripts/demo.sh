#!/bin/sh
# Shows what lastgood is for, in a few seconds, and checks every word that it prints.
# Usage: scripts/demo.sh [DIRECTORY]
#
# Makes keys and a store under DIRECTORY, which must not exist (default: a fresh one under
# ${TMPDIR:-/tmp}), runs a small Python job, kills it with SIGKILL at random instants until it has
# come to its end, then damages a copy of the store and repairs that. Nothing outside DIRECTORY is
# touched; nothing is left running. Exits 0 only if everything was as promised.
set -eu
umask 077
unset LASTGOOD_DEBUG

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../.venv/bin
if [ ! -x "$bin/lastgood" ]; then
    echo "demo: $bin/lastgood is not there. Run: make demo" >&2
    exit 1
fi
bin=$(cd "$bin" && pwd)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
fail() {
    printf 'demo: NOT AS PROMISED: %s\n' "$*" >&2
    say "What there is lies in $top" >&2
    exit 1
}

# A word that the shell reads back as it is.
quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }

lastgood() { "$bin/lastgood" "$@"; }

# expect CODE WORD...: run lastgood, show it, and stop unless it exits with CODE.
expect() {
    wanted=$1
    shift
    say "\$ lastgood $*"
    code=0
    lastgood "$@" >"$top/out" 2>"$top/err" || code=$?
    sed 's/^/    /' "$top/out" "$top/err"
    [ "$code" = "$wanted" ] || fail "lastgood $* exited with $code, not with $wanted"
}

# A listing of everything: names, modes, sizes, times, contents.
listing() { (cd "$1" && ls -lRA . && find . -type f -exec cksum {} + | sort); }

random_byte() { od -An -N1 -tu1 /dev/urandom | tr -d ' \n'; }

# attempt: run the job, shot with SIGKILL between 30 and 230 ms after it has resumed.
attempt() {
    "$bin/python" "$top/job/demo_job.py" "$root" "$keys" >"$top/said" 2>"$top/err" &
    process=$!
    until grep -q '^resumed' "$top/said" || ! kill -0 "$process" 2>/dev/null; do sleep 0.01; done
    sleep "$(awk -v r="$(random_byte)" 'BEGIN { printf "%.3f", 0.030 + r / 255 * 0.200 }')"
    kill -9 "$process" 2>/dev/null || true
    code=0
    wait "$process" 2>/dev/null || code=$?
}

if [ $# -gt 0 ]; then
    mkdir "$1"
    top=$(cd "$1" && pwd)
else
    top=$(mktemp -d "${TMPDIR:-/tmp}/lastgood-demo-XXXXXX")
fi
root=$top/state
keys=$top/keys.json
export LASTGOOD_ROOT="$root" LASTGOOD_KEYS="$keys"
mkdir "$top/job"
cp "$here/demo_job.py" "$top/job/demo_job.py"

step "Keys and a store"
say "The keys lie outside the store: who gets at the store can neither forge nor alter a state."
say "\$ export LASTGOOD_ROOT=$root LASTGOOD_KEYS=$keys"
expect 0 keys new "$keys"

step "A Python job pays 40 invoices. Kill it with SIGKILL, again and again, and run it again"
say "Each payment is one event, durable before the next; every tenth makes a checkpoint."
: >"$top/acknowledged"
killed=0
round=0
while :; do
    round=$((round + 1))
    [ "$round" -le 60 ] || fail "the job does not come to its end"
    attempt
    case $code in 0 | 137) ;; *) sed 's/^/    /' "$top/err" && fail "the job exited with $code" ;; esac
    found=$(awk '/^resumed/ { print $4 }' "$top/said")
    told=$(wc -l <"$top/acknowledged" | tr -d ' ')
    if [ -n "$found" ]; then
        # One more may be stored than was told: the kill came between the two.
        [ "$found" -ge "$told" ] || fail "$told payments were acknowledged, $found are there"
        [ "$found" -le $((told + 1)) ] || fail "$found payments are there, $told were acknowledged"
        [ "$found" = "$told" ] || say "$found" >>"$top/acknowledged"
    fi
    sed -n 's/^acknowledged //p' "$top/said" >>"$top/acknowledged"
    if [ "$code" = 0 ]; then
        say "  run $round: it found $found payments, made the rest, and came to its end"
        break
    fi
    killed=$((killed + 1))
    from=$(awk '/^resumed/ { print "checkpoint " $2 " and " $3 " events behind it" }' "$top/said")
    made=$(grep -c '^acknowledged' "$top/said" || true)
    printf '  run %d: found %s payments (%s), made %s more, KILLED\n' \
        "$round" "${found:-?}" "${from:-nothing yet}" "$made"
done
[ "$killed" -gt 0 ] || fail "the job could not be killed in time"
paid=$(sed -n 's/^finished //p' "$top/said")
wanted=$(awk 'BEGIN { for (i = 1; i <= 40; i++) printf "%sA-%02d", (i > 1 ? " " : ""), i }')
[ "$paid" = "$wanted" ] || fail "the end is not that of an undisturbed run: $paid"
say "$killed kills. Every payment is there once, in order, as in a run that nobody disturbed."
expect 0 verify invoices

step "One flipped byte in the newest checkpoint, in a copy: refused, and nothing is touched"
cp -Rp "$root" "$top/damaged"
lastgood load invoices >"$top/good.json" 2>/dev/null || fail "the last good state does not load"
# shellcheck disable=SC2012  # the names are lastgood's own
file=$(ls "$top/damaged"/*/checkpoint-*.json | tail -n 1)
at=$(($(wc -c <"$file") - 200))
byte=$(dd if="$file" bs=1 skip="$at" count=1 2>/dev/null | od -An -tu1 | tr -d ' \n')
# shellcheck disable=SC2059  # the format is the byte, as an octal escape
printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of="$file" bs=1 seek="$at" conv=notrunc 2>/dev/null
listing "$top/damaged" >"$top/before"
LASTGOOD_ROOT=$top/damaged
say "\$ export LASTGOOD_ROOT=$LASTGOOD_ROOT"
expect 2 load invoices
listing "$top/damaged" >"$top/after"
cmp -s "$top/before" "$top/after" || fail "a refused load changed the store"
say "It does not fall back to an older state: that would repeat payments that were made."

step "The one command that it names"
grep -q 'lastgood repair .*--rebuild-from-log' "$top/err" || fail "no repair was named"
say "\$ cd $top/job"
cd "$top/job"
expect 0 repair invoices --rebuild-from-log --program demo_job:PROGRAM --reason "flipped byte"
lastgood load invoices >"$top/repaired.json" 2>/dev/null || fail "it is not repaired"
cmp -s "$top/good.json" "$top/repaired.json" || fail "the repaired state is another one"
say "The same state, to the last byte; the damaged file is kept, the log says who and why."
expect 0 verify invoices
LASTGOOD_ROOT=$root

rm -rf "$top/out" "$top/err" "$top/said" "$top/before" "$top/after" "$top/good.json" \
    "$top/repaired.json" "$top/acknowledged" "$top/job/__pycache__"
command="$(quoted "$bin/lastgood") --root $(quoted "$root") --keys $(quoted "$keys")"
step "All as promised"
say "The state lies in $root; the job is $top/job/demo_job.py."
say "Load it:    $command load invoices"
say "Verify it:  $command verify invoices"
say "Remove it:  rm -r $(quoted "$top")"
