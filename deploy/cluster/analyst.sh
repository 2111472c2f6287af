#!/bin/sh
# Runs a command of `sfumato` with the cluster's key; `decode` is given the study.
set -eu
SFUMATO_KEY=$(cat "${SHARED:-/run/sfumato}/operator/key")
export SFUMATO_KEY
if [ "${1:-}" = decode ]; then
    shift
    exec sfumato decode "$(cat "${SHARED:-/run/sfumato}/tokens/study")" "$@"
fi
exec sfumato "$@"
