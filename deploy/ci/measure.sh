#!/bin/sh
# Run a command several times under gramwatt, compare the runs with those of the baseline, and write
# a summary in Markdown. Nothing is sent anywhere.
#
#   measure.sh [--runs N] [--fail-above 5%] [--summary FILE] [--baseline] -- COMMAND...
#
# --baseline keeps these runs as what later ones are compared with, in GRAMWATT_HOME, which the
# pipeline caches. Exit code: that of a command that fails, 1 where the runs reliably emit more than
# the baseline by more than --fail-above, else 0.
set -eu

runs=3 limit=5% summary= baseline=
while [ $# -gt 0 ]; do
    case $1 in
        --runs) runs=$2 && shift 2 ;;
        --fail-above) limit=$2 && shift 2 ;;
        --summary) summary=$2 && shift 2 ;;
        --baseline) baseline=1 && shift ;;
        --) shift && break ;;
        *) echo "measure.sh: $1 is not known; the command follows --" >&2 && exit 2 ;;
    esac
done
[ $# -gt 0 ] || { echo "measure.sh: no command after --" >&2; exit 2; }
: "${GRAMWATT_HOME:=$PWD/.gramwatt}"
export GRAMWATT_HOME
mkdir -p "$GRAMWATT_HOME"
kept=$GRAMWATT_HOME/ci-baseline
document=$(mktemp)
text=$(mktemp)
trap 'rm -f "$document" "$text"' EXIT

ids=
number=0
while [ "$number" -lt "$runs" ]; do
    number=$((number + 1))
    gramwatt run --kind evaluation --json-summary "$document" -- "$@"
    id=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["job_id"])' "$document")
    ids=${ids:+$ids,}$id
done

{
    printf '### Energy and carbon\n\n```\n'
    gramwatt job "${ids##*,}"
    printf '```\n'
} >"$text"
code=0
if [ -s "$kept" ]; then
    {
        printf '\nAgainst the baseline, %s runs a side:\n\n```\n' "$runs"
        gramwatt compare "$(cat "$kept")" "$ids" --fail-above "$limit" || code=$?
        printf '```\n'
    } >>"$text" 2>&1
else
    printf '\nThere is no baseline yet: the runs of the default branch make one.\n' >>"$text"
fi
cat "$text"
[ -z "$summary" ] || cat "$text" >>"$summary"
[ -z "$baseline" ] || printf '%s' "$ids" >"$kept"
exit "$code"
