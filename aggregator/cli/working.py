"""`sfumato worker`."""

from __future__ import annotations

import argparse
import asyncio

from aggregator.cli.arguments import add_database, create_parser, read_settings, run
from aggregator.logs import configure_logging
from aggregator.worker import run_worker

_EXAMPLES = """\
  sfumato worker                                          # for `sfumato serve` in the same folder
  sfumato worker --database postgresql://sfumato@db/sfumato --lease 120"""


def worker(argv: list[str]) -> int:
    """Run one decoding worker on the server's database.

    Returns
    -------
    int
        0 after a graceful stop, 1 or 2 when it cannot start.
    """
    parser = create_parser(
        "worker",
        "Recover centroids for the decodes that wait in the database, one at a time, until "
        "stopped.",
        _EXAMPLES,
    )
    add_database(parser)
    parser.add_argument(
        "--lease",
        dest="lease_s",
        type=float,
        metavar="SECONDS",
        help="after which others take over from a silent worker (SFUMATO_LEASE_S; 60)",
    )
    parser.add_argument("--log-format", choices=("console", "json"), help="of standard error")
    return run(parser, argv, _work)


def _work(arguments: argparse.Namespace) -> int:
    settings = read_settings(**vars(arguments))
    configure_logging(settings.log_format)
    asyncio.run(run_worker(settings))
    return 0
