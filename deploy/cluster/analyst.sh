#!/bin/sh
# Run a command of `sfumato` with the cluster's key. `decode` gets the study as its first argument.
set -eu
SFUMATO_KEY=$(cat "${SHARED:-/run/sfumato}/operator/key")
export SFUMATO_KEY
if [ "${1:-}" = decode ]; then
    shift
    exec sfumato decode "$(cat "${SHARED:-/run/sfumato}/tokens/study")" "$@"
fi
exec sfumato "$@"
