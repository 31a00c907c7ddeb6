#!/bin/sh
# Prints the path of if-run of the Impact Framework release that our manifests are tested with.
# Installs it once into a cache folder, and Node.js through apt where no node >= 18 is found.
set -eu

version=1.1.0
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gramwatt-tests/if-$version"
if_run="$cache/node_modules/.bin/if-run"

node_major() {
    node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0
}

if [ "$(node_major)" -lt 18 ] || ! command -v npm >/dev/null; then
    echo "ensure_if: no node >= 18 with npm here, installing both through apt" >&2
    as_root=""
    [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
    $as_root apt-get update -qq >&2
    $as_root apt-get install -y -qq --no-install-recommends nodejs npm >&2
fi
if [ "$(node_major)" -lt 18 ]; then
    echo "ensure_if: Impact Framework needs node >= 18; found $(node_major)" >&2
    exit 1
fi
# One run installs and the others wait: aside, then into place in one step.
mkdir -p "$(dirname "$cache")"
exec 9>"$cache.lock"
flock 9
# Node.js has its own list of certificate authorities; a proxy's is often in the system's alone.
system=/etc/ssl/certs/ca-certificates.crt
[ ! -r "$system" ] || export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-$system}"
if [ ! -x "$if_run" ]; then
    rm -rf "$cache.new"
    npm install --prefix "$cache.new" --no-audit --no-fund --loglevel=error "@grnsft/if@$version" >&2
    mv -T "$cache.new" "$cache"
fi
[ -x "$if_run" ] || { echo "ensure_if: $if_run was not installed" >&2; exit 1; }
echo "$if_run"
