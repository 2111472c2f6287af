#!/bin/sh
# Wait for the certificate, then serve.
set -eu
until [ -s /run/sfumato/certificate/server.pem ] && [ -s /run/sfumato/certificate/server.key ]; do
    sleep 1
done
exec caddy run --config /etc/caddy/Caddyfile --adapter caddyfile
