# shellcheck shell=sh
# What scripts/demo and scripts/check share: the project's own Python environment in .venv, made
# once from a lock file with hashes. Sourced, never run; `root` is set by the caller.
#
# Exit codes: 3 an administrator has to install something, 4 the packages could not be had.

say() { printf 'gramwatt: %s\n' "$*" >&2; }

# apt_install PACKAGE...: install Debian packages when that is allowed, else say who must do what.
apt_install() {
    command -v apt-get >/dev/null 2>&1 || {
        say "missing: $*. Install the equivalent packages of this system, then run this again."
        exit 3
    }
    as_root=
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || {
            say "an administrator must run this line once, then run this again:"
            printf '%s\n' "    apt-get update && apt-get install -y $*" >&2
            exit 3
        }
        as_root="sudo -n"
    fi
    say "installing system packages: $*"
    # An index that cannot be refreshed is no reason to stop: the package may be known already.
    $as_root apt-get update -qq >/dev/null 2>&1 || say "apt-get update failed, going on"
    # shellcheck disable=SC2086  # as_root is two words or none
    output=$($as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" 2>&1) || {
        printf '%s\n' "$output" >&2
        say "apt-get could not install: $*"
        exit 3
    }
}

# find_python: print the first interpreter that is recent enough; fail when there is none.
find_python() {
    for candidate in "${PYTHON:-python3}" python3 python3.11 python3.12 python3.13 python3.14; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    return 1
}

# missing_packages LOCK: print the Debian packages this system lacks, on one line.
missing_packages() {
    if ! usable_venv; then
        if ! python=$(find_python); then
            printf 'python3 python3-venv '
        elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
            case $python in
                *python3.*) printf '%s-venv ' "${python##*/}" ;;
                *) printf 'python3-venv ' ;;
            esac
        fi
    fi
    # Impact Framework, which a test of our export runs, asks for the name of the system.
    if [ "$1" = development ] && ! command -v lsb_release >/dev/null 2>&1; then
        printf 'lsb-release '
    fi
    # The power cut is simulated at each system call.
    if [ "$1" = development ] && ! command -v strace >/dev/null 2>&1; then
        printf 'strace '
    fi
    # The pages are tested in a real browser, with a font to draw letters in.
    if [ "$1" = development ] && ! [ -x "${GRAMWATT_CHROMIUM:-/usr/bin/chromium}" ]; then
        printf 'chromium fonts-dejavu-core '
    fi
    # Printed reports have letters of other scripts where the system has a font.
    if [ "$1" = development ] && [ -z "$(fc-list :lang=ja 2>/dev/null)" ]; then
        printf 'fontconfig fonts-wqy-microhei fonts-symbola '
    fi
}

usable_venv() {
    "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# make_venv: create .venv when it is absent, broken or of too old a Python.
make_venv() {
    usable_venv && return
    python=$(find_python) || {
        say "Python 3.11 or newer is needed; this system's package is older."
        exit 3
    }
    "$python" -m venv --clear "$venv"
}

# prepare LOCK [FOLDER]: make .venv, or that folder, hold requirements/LOCK.txt and this checkout.
# Quick when it does already.
prepare() {
    venv=$root/${2:-.venv}
    missing=$(missing_packages "$1")
    # shellcheck disable=SC2086  # one word a package
    [ -z "$missing" ] || apt_install $missing
    make_venv
    # The development lock holds everything of the demo's, at the same versions.
    [ "$1" = demo ] && stamped development || ensure_lock "$1"
    install_project
}

digest() { sha256sum <"$root/requirements/$1.txt"; }

stamped() { [ "$(cat "$venv/.lock-$1" 2>/dev/null)" = "$(digest "$1")" ]; }

# ensure_lock LOCK: make the environment hold requirements/LOCK.txt as well.
ensure_lock() {
    stamped "$1" && return
    install_lock "$1"
    digest "$1" >"$venv/.lock-$1"
}

pip_install() {
    quiet=--quiet
    [ -t 2 ] && quiet=
    # shellcheck disable=SC2086  # quiet is one word or none
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input $quiet "$@" >&2
}

install_lock() {
    say "installing $(grep -c '==' "$root/requirements/$1.txt") packages into ${venv##*/} (once)"
    source=
    [ "$1" != clusters ] || source=--no-binary=pyspark-client # published as source alone
    # shellcheck disable=SC2086  # source is one word or none
    pip_install --require-hashes --only-binary=:all: $source \
        -r "$root/requirements/$1.txt" || {
        say "the packages could not be installed; see pip's message above, then run this again"
        exit 4
    }
}

# install_project: link the checkout into .venv; anew when it was moved or its metadata changed.
install_project() {
    linked="$root $(sha256sum <"$root/pyproject.toml")"
    [ "$(cat "$venv/.project" 2>/dev/null)" = "$linked" ] && return
    pip_install --no-index --no-deps --no-build-isolation --editable "$root"
    printf '%s\n' "$linked" >"$venv/.project"
}
