#!/bin/sh
# Set up the cluster once: certificate, tables, key, study, and a token for each station.
# A step is skipped if its result exists, so that a restarted container continues where it stopped.
# SHARED is a folder; the containers share parts of it.
set -eu
umask 077
here=$(dirname "$0")
python=${PYTHON:-/opt/sfumato/bin/python}
shared=${SHARED:-/run/sfumato}
tokens=$shared/tokens

say() { echo "operator: $*" >&2; }

# Write standard input to a file that appears under its name only when it is complete.
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

# A study's id is the hash of its name and plan, so creating the study again gives the same id.
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
