#!/opt/sfumato/bin/python
"""Read an address of a server, such as `/readyz`; exit with 1 unless it answers as it should."""

from __future__ import annotations

import argparse
import json
import ssl
import sys
import urllib.error
import urllib.request

_PATIENCE_S = 5.0


def main() -> int:
    """Return 0 if the server answers as it should."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address to read")
    parser.add_argument("--authority", help="PEM file that the server's certificate comes from")
    parser.add_argument("--workers", type=int, default=0, help="workers that must be at work")
    arguments = parser.parse_args()
    trust = ssl.create_default_context(cafile=arguments.authority)
    # Its server is beside it, behind no proxy that the environment names.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        with opener.open(arguments.url, timeout=_PATIENCE_S) as answer:
            document = json.load(answer)
    except (OSError, ValueError) as error:
        print(f"{arguments.url} does not answer: {error}", file=sys.stderr)
        return 1
    if document.get("n_workers", 0) < arguments.workers:
        print(f"{arguments.url} knows too few workers: {document}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
