# shellcheck shell=sh
# The other side of tests/clusters: Debian's packages, unpacked into .clusters and never installed.
# Sourced by scripts/check; `root` is set there.

# unpack NAME PACKAGE...: unpack the packages into .clusters/NAME, once.
unpack() {
    folder=$root/.clusters/$1
    shift
    [ -e "$folder/.whole" ] && return
    command -v apt-get >/dev/null 2>&1 || {
        say "the tests of clusters need a Debian system: its packages are unpacked for them"
        exit 3
    }
    rm -rf "$folder"
    mkdir -p "$folder/packages"
    say "unpacking $* into ${folder#"$root"/} (once)"
    (cd "$folder/packages" && apt-get download -q "$@" >/dev/null 2>&1) || {
        say "apt-get could not download: $*; run apt-get update first"
        exit 4
    }
    for package in "$folder"/packages/*.deb; do
        dpkg -x "$package" "$folder"
    done
    : >"$folder/.whole"
}

unpack slurm slurmctld slurmd slurm-client slurm-wlm-basic-plugins libhwloc15 libmunge2 \
    libjson-c5 liblua5.1-0 libyaml-0-2 libdbus-1-3 libnuma1
unpack prometheus prometheus
