#!/bin/sh
# Prepares a clone. Usage: scripts/setup.sh install|tools
#
#   install  makes .venv and installs lastgood and what it needs to run
#   tools    install, then what the tests and checks need: Python tools, and on Debian as root
#            the packages of requirements/debian.txt
#
# Does nothing, and needs no network, when nothing has changed since the last time.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

python_found() {
    if [ -n "${PYTHON:-}" ] && ! is_new_enough "$PYTHON"; then
        say "PYTHON=$PYTHON is no Python 3.11 or newer that runs here. Nothing was changed."
        exit 1
    fi
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    say "no Python 3.11 or newer was found. Nothing was changed."
    say "Install one, or name it: make PYTHON=/path/to/python3 ..."
    exit 1
}

make_venv() {
    if .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        return
    fi
    python=$(python_found)
    say "making .venv with $("$python" --version)"
    if ! "$python" -m venv --clear .venv; then
        say "$python cannot make a virtual environment. On Debian: apt-get install python3-venv"
        exit 1
    fi
}

# The stamp holds what decides the content of .venv: interpreter, place, and files named.
fingerprint() {
    { .venv/bin/python -VV; pwd; cat pyproject.toml "$@"; } | cksum
}

pip_install() {
    .venv/bin/python -m pip install -qq --disable-pip-version-check "$@"
}

# install_python STAMP REQUIREMENTS FILE...
install_python() {
    stamp=.venv/$1.stamp
    requirements=$2
    shift
    now=$(fingerprint "$@")
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then
        return
    fi
    say "installing $requirements"
    pip_install -r "$requirements"
    # No isolation: the pinned build back end is installed already, so this needs no network.
    pip_install --no-build-isolation --no-deps --editable .
    printf '%s\n' "$now" >"$stamp"
}

missing_packages() {
    grep -v '^#' requirements/debian.txt | while read -r command package; do
        command -v "$command" >/dev/null 2>&1 || printf '%s\n' "$package"
    done | sort -u | tr '\n' ' '
}

# Tests that need a missing tool skip and say so; with LASTGOOD_REQUIRE_ALL=1 it is a failure here.
install_debian() {
    packages=$(missing_packages)
    if [ -z "$packages" ]; then
        return
    fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing Debian packages: $packages"
        # shellcheck disable=SC2086  # a list of package names, split on purpose
        if apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
            --no-install-recommends $packages </dev/null >&2; then
            return
        fi
    fi
    say "not installed: $packages(tests that need them are skipped)"
    say "Remedy, as root: apt-get update && apt-get install $packages"
    if [ "${LASTGOOD_REQUIRE_ALL:-}" = 1 ]; then
        exit 1
    fi
}

case "${1:-}" in
    install)
        make_venv
        install_python install requirements/install.txt
        ;;
    tools)
        make_venv
        install_python tools requirements/dev.txt requirements/install.txt
        install_debian
        ;;
    *)
        say "usage: scripts/setup.sh install|tools"
        exit 1
        ;;
esac
