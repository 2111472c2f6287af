#!/bin/sh
# The second server of secure sums: make its certificate, its identity and the leader's key once, and serve.
# HOME_OF_HELPER holds what is the helper's alone; SHARED/helper what the leader may read.
set -eu
umask 077
here=$(dirname "$0")
python=${PYTHON:-/opt/sfumato/bin/python}
own=${HOME_OF_HELPER:-/var/lib/sfumato}
door=${SHARED:-/run/sfumato}/helper

"$python" "$here/make_certificate.py" helper localhost \
    --authority "$door/ca.pem" --folder "$own/certificate"
SFUMATO_HELPER_DATABASE=$own/helper.db
SFUMATO_HELPER_KEYS=$own/keys
SFUMATO_HELPER_JOURNAL=${JOURNAL:-/var/lib/sfumato-journal/helper.journal}
export SFUMATO_HELPER_DATABASE SFUMATO_HELPER_KEYS SFUMATO_HELPER_JOURNAL
sfumato helper identity >&2
if [ ! -s "$door/key" ]; then
    key=$(sfumato helper key --name leader)
    echo "$key" > "$door/key.part"
    mv "$door/key.part" "$door/key"
fi
exec sfumato helper serve --host "${HOST:-0.0.0.0}" --port "${PORT:-8760}" \
    --tls-cert "$own/certificate/server.pem" --tls-key "$own/certificate/server.key"
