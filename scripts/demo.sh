#!/bin/sh
# Shows what lastgood is for, in about 20 seconds, and checks every word that it prints.
# Usage: scripts/demo.sh [DIRECTORY]
#
# Makes keys and a store under DIRECTORY, which must not exist (default: a fresh one under
# ${TMPDIR:-/tmp}), saves the state of a small job, kills saves with SIGKILL at random instants,
# and damages a copy of the store. Nothing outside DIRECTORY is touched; nothing is left running.
# Exits 0 only if everything was as promised.
set -eu
umask 077
unset LASTGOOD_DEBUG

bin=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin
if [ ! -x "$bin/lastgood" ]; then
    echo "demo: $bin/lastgood is not there. Run: make demo" >&2
    exit 1
fi

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

# state N: what the job knows after N steps, exactly as `lastgood load` prints it.
state() {
    awk -v n="$1" 'BEGIN {
        printf "{\"job\":\"pay invoices\",\"step\":%d,\"paid\":[", n
        for (i = 1; i <= n * 2000; i++) printf "%s\"A-%06d\"", (i > 1 ? "," : ""), i
        print "]}"
    }'
}

# fingerprint N: stands for "the payment of step N was made".
fingerprint() { printf 'fx:v1:%064d' "$1"; }

# save N: in the foreground; N becomes the last step that was acknowledged.
save() {
    state "$1" >"$top/state-$1.json"
    expect 0 save invoices --sequence "$1" --effect "$(fingerprint "$1")" \
        --state "$top/state-$1.json"
    acknowledged=$1
}

# loads N: whether N is what the store holds, to the last byte.
loads() {
    lastgood load invoices >"$top/loaded.json" || fail "the last good state does not load"
    cmp -s "$top/loaded.json" "$top/state-$1.json"
}

# A listing of everything: names, modes, sizes, times, contents.
listing() { (cd "$1" && ls -lRA . && find . -type f -exec cksum {} + | sort); }

random_byte() { od -An -N1 -tu1 /dev/urandom | tr -d ' \n'; }

# attempt N: a save in the background, killed at a random instant of the second half of
# $longest_ms milliseconds, unless it was faster.
attempt() {
    state "$1" >"$top/state-$1.json"
    "$bin/lastgood" save invoices --sequence "$1" --effect "$(fingerprint "$1")" \
        --state "$top/state-$1.json" >"$top/out" 2>"$top/err" &
    process=$!
    sleep "$(awk -v r="$(random_byte)" -v ms="$longest_ms" \
        'BEGIN { printf "%.3f", ms / 2000 * (1 + r / 255) }')"
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
acknowledged=0

step "Keys and a store"
say "The keys lie outside the store: who gets at the store can neither forge nor alter a state."
say "\$ export LASTGOOD_ROOT=$root LASTGOOD_KEYS=$keys"
expect 0 keys new "$keys"

step "A job saves its state after each step"
for number in 1 2 3; do
    save "$number"
done
expect 0 list invoices

step "The same save again changes nothing; an older step does not win"
expect 0 save invoices --sequence 3 --state "$top/state-3.json"
grep -q '^unchanged' "$top/out" || fail "the same save again was not a no-op"
expect 7 save invoices --sequence 2 --state "$top/state-3.json"
expect 7 save invoices --sequence 1 --state "$top/state-1.json"
loads 3 || fail "an older step won"
say "Still step 3, to the last byte."

step "Kill it: 12 saves, each shot with SIGKILL at a random instant"
killed=0
longest_ms=400
for round in 1 2 3 4 5 6 7 8 9 10 11 12; do
    next=$((acknowledged + 1))
    attempt "$next"
    case $code in
        0) what="was faster and acknowledged step $next" longest_ms=$((longest_ms * 2 / 3)) ;;
        137) what="killed while saving step $next" killed=$((killed + 1)) ;;
        *) sed 's/^/    /' "$top/err" && fail "save exited with $code" ;;
    esac
    if loads "$next"; then
        found=$next
    elif [ "$code" = 0 ]; then
        fail "step $next was acknowledged and is gone"
    elif [ "$acknowledged" -gt 0 ] && loads "$acknowledged"; then
        found=$acknowledged
        longest_ms=$((longest_ms * 5 / 4)) # too early on this machine: go for the middle of it
    else
        fail "neither step $acknowledged nor step $next, whole, is what loads"
    fi
    printf '  round %2d: %-38s -> step %d loads, whole\n' "$round" "$what" "$found"
    acknowledged=$found
done
[ "$killed" -gt 0 ] || fail "no save could be killed in time"
say "$killed of 12 were killed. Nothing was lost, nothing was half-written, nobody repaired anything."

step "The next save goes on, and finishes what a killed one left"
save $((acknowledged + 1))
expect 0 verify invoices

step "One flipped byte, in a copy of the store: refused, and nothing is touched"
cp -Rp "$root" "$top/damaged"
file=$(find "$top/damaged" -name "checkpoint-*$acknowledged.json")
byte=$(dd if="$file" bs=1 skip=5000 count=1 2>/dev/null | od -An -tu1 | tr -d ' \n')
# shellcheck disable=SC2059  # the format is the byte, as an octal escape
printf "\\$(printf '%03o' $((byte ^ 1)))" | dd of="$file" bs=1 seek=5000 conv=notrunc 2>/dev/null
listing "$top/damaged" >"$top/before"
LASTGOOD_ROOT=$top/damaged
say "\$ export LASTGOOD_ROOT=$LASTGOOD_ROOT"
expect 2 load invoices
expect 2 verify invoices
LASTGOOD_ROOT=$root
listing "$top/damaged" >"$top/after"
cmp -s "$top/before" "$top/after" || fail "a refused load changed the store"
loads "$acknowledged" || fail "the sound store does not load"
say "It does not fall back to an older step: that would repeat payments that were made."

rm -f "$top/out" "$top/err" "$top/before" "$top/after" "$top/loaded.json" "$top"/state-*.json
command="$(quoted "$bin/lastgood") --root $(quoted "$root") --keys $(quoted "$keys")"
step "All as promised"
say "The state lies in $root, step $acknowledged is the last good one."
say "Load it:    $command load invoices"
say "Verify it:  $command verify invoices"
say "Remove it:  rm -r $(quoted "$top")"
