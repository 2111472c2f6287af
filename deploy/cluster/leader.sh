#!/bin/sh
# Run a command of the first server with what the helper gave it: the authority and a key. Prometheus has
# that key too, so metrics are read with it.
set -eu
door=${SHARED:-/run/sfumato}/helper
until [ -s "$door/ca.pem" ] && [ -s "$door/key" ]; do
    sleep 1
done
SFUMATO_HELPER_URL=${SFUMATO_HELPER_URL:-https://helper:8760}
SFUMATO_HELPER_API_KEY=$(cat "$door/key")
SFUMATO_HELPER_CA=$door/ca.pem
SFUMATO_METRICS_KEY=$SFUMATO_HELPER_API_KEY
export SFUMATO_HELPER_URL SFUMATO_HELPER_API_KEY SFUMATO_HELPER_CA SFUMATO_METRICS_KEY
exec "$@"
