#!/bin/sh
# A weather station: wait for its token, enrol, and run until stopped.
set -eu
here=$(dirname "$0")
shared=${SHARED:-/run/sfumato}
config=${CONFIG:-/var/lib/sfumato/agent.toml}

until [ -s "$shared/tokens/study" ] && [ -s "$shared/tokens/$STATION" ]; do
    sleep 1
done
study=$(cat "$shared/tokens/study")
SSL_CERT_FILE=$shared/authority/ca.pem
export SSL_CERT_FILE

data=${DATA:-$here/data}/$(echo "$STATION" | tr '[:upper:]' '[:lower:]').csv
sed -e "s|@STUDY@|$study|" -e "s|@STATION@|$STATION|" -e "s|@DATA@|$data|" \
    -e "s|@LEDGER@|${SFUMATO_LEDGER:-/var/lib/sfumato-ledger/owner.ledger}|" "$here/agent.toml" > "$config"

# Enrolling again with the same token is harmless. 75 says that the server does not answer yet; any
# other refusal, such as one of the records, needs a person.
status=75
while [ "$status" -eq 75 ]; do
    status=0
    sfumato-agent init --config "$config" --token "$(cat "$shared/tokens/$STATION")" || status=$?
    [ "$status" -ne 75 ] || sleep 2
done
[ "$status" -eq 0 ] || exit "$status"
exec sfumato-agent run --config "$config"
