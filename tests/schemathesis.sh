#!/bin/bash
# Sends generated requests to the API of a fresh Rosemary, from its own description, with Schemathesis: no answer may be a failure of the
# server (5xx) or undescribed. Installs Schemathesis from PyPI into target/schemathesis. Arguments: the programs' directory.
#
# Left out: the stream of events, which does not end; routes whose bodies Schemathesis cannot write (TOML, packages), which the
# system tests cover; routes that would end the run (reload, safe mode) or an app that other routes need. Schemathesis learns the names of
# apps from answers.
set -eu -o pipefail
cd "$(dirname "$0")/.."
programs=$(realpath "${1:-target/debug}")
venv=$PWD/target/schemathesis/venv
if [ ! -x $venv/bin/schemathesis ]; then
    echo "schemathesis.sh: installing Schemathesis from PyPI into $venv" >&2
    python3 -m venv $venv
    $venv/bin/pip install --quiet schemathesis==4.32.5
fi
dir=$(mktemp -d)
trap 'kill $rosemary 2>/dev/null; wait $rosemary 2>/dev/null; rm -rf "$dir"' EXIT
for app in learning-switch topology hosts stats; do printf '[[app]]\nname = "%s"\n' $app; done > "$dir/rosemary.toml"
"$programs/rosemary" up --config "$dir/rosemary.toml" --runtime-dir "$dir/run" --state-dir "$dir/state" \
    --listen 127.0.0.1:0 --api 127.0.0.1:8191 2> "$dir/log" &
rosemary=$!
for _ in $(seq 300); do
    curl -sf http://127.0.0.1:8191/readyz > /dev/null && break
    kill -0 $rosemary 2>/dev/null || { cat "$dir/log" >&2; exit 1; }
    sleep 0.2
done
cd target/schemathesis # it keeps a cache where it runs
$venv/bin/schemathesis run http://127.0.0.1:8191/api/v1/openapi.json \
    --phases "${PHASES:-coverage,fuzzing}" --max-examples "${EXAMPLES:-5}" --max-time "${SECONDS_OF_FUZZING:-100}" --seed "${SEED:-7}" --no-shrink \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --request-timeout 40 --warnings off --continue-on-failure \
    --exclude-path /api/v1/events --exclude-path /api/v1/safe-mode --exclude-path /api/v1/reload \
    --exclude-path /api/v1/config --exclude-path /api/v1/config/plan --exclude-path /api/v1/config/validate \
    --exclude-path '/api/v1/apps/{name}/package' --exclude-path '/api/v1/apps/{name}/stop' \
    --exclude-path '/api/v1/apps/{name}/disable' --exclude-path '/api/v1/apps/{name}/restart' | tee "$dir/report"
# At the limit of time Schemathesis leaves operations out. An operation that was not tested has not passed.
selected=$(sed -n 's|^ *Selected: \([0-9]*\)/.*|\1|p' "$dir/report")
tested=$(sed -n 's|^ *Tested: \([0-9]*\).*|\1|p' "$dir/report")
if [ -z "$tested" ] || [ "$tested" != "$selected" ]; then
    echo "schemathesis.sh: ${tested:-none} of ${selected:-unknown} operations were tested; raise SECONDS_OF_FUZZING" >&2
    exit 1
fi
