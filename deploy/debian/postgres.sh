#!/bin/sh
# Make a database once and serve it: the variables and the folder are those of the public image.
set -eu
data=/var/lib/postgresql/data
if [ ! -s "$data/PG_VERSION" ]; then
    # In a folder of its own first, so that a database that was not finished is not taken for one that was.
    rm -rf "${data:?}"/*
    echo "$POSTGRES_PASSWORD" > /tmp/password
    initdb --pgdata="$data/new" --username="$POSTGRES_USER" --pwfile=/tmp/password --auth=scram-sha-256 --auth-local=trust
    rm /tmp/password
    echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$data/new" postgres > /dev/null
    echo "host all all all scram-sha-256" >> "$data/new/pg_hba.conf"
    version=$(cat "$data/new/PG_VERSION")
    rm "$data/new/PG_VERSION"
    mv "$data"/new/* "$data"
    rmdir "$data/new"
    echo "$version" > "$data/PG_VERSION"
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=
