#!/bin/sh
# What an operator does once: certificate, tables, key, study, and a token for each station.
# Each step is skipped when its result is there, so that a container that is started again goes on.
# SHARED is the folder that the containers share in parts.
set -eu
umask 077
here=$(dirname "$0")
python=${PYTHON:-/opt/sfumato/bin/python}
shared=${SHARED:-/run/sfumato}
tokens=$shared/tokens

say() { echo "operator: $*" >&2; }

# Reads standard input into a file that appears under its name only when it is whole.
keep() {
    cat > "$1.part"
    mv "$1.part" "$1"
}

"$python" "$here/make_certificate.py" proxy localhost \
    --authority "$shared/authority/ca.pem" --folder "$shared/certificate"

until sfumato migrate; do
    say "waiting for the database"
    sleep 2
done

if [ ! -s "$shared/operator/key" ]; then
    key=$(sfumato operator-key --name cluster)
    echo "$key" | keep "$shared/operator/key"
fi
SFUMATO_KEY=$(cat "$shared/operator/key")
export SFUMATO_KEY

until sfumato study list > /dev/null; do
    say "waiting for an aggregator"
    sleep 2
done

# A study's id is the hash of its name and plan: creating it again gives the same one.
study=$(sfumato study create "weather of a year" "${PLAN:-$here/plan.toml}" --json \
    | "$python" -c 'import json, sys; print(json.load(sys.stdin)["study_id"])')
umask 022
for station in $STATIONS; do
    if [ ! -s "$tokens/$station" ]; then
        token=$(sfumato study token "$study")
        echo "$token" | keep "$tokens/$station"
    fi
done
echo "$study" | keep "$tokens/study"
say "ready; the study is $study"
