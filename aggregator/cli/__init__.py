"""The server's commands of `sfumato`, from `serve` to `copy`.

Entry points load them; nothing else imports them. Each command imports its work late, so that help
starts fast.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from sfumato.shared.command import SETTINGS, list_examples

# The work is imported late. Without its packages, the commands count as not installed.
if find_spec("sqlalchemy") is None:
    raise ModuleNotFoundError("no module named sqlalchemy", name="sqlalchemy")

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="TOML file of settings; options and SFUMATO_... variables override it."
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="PATH_OR_URL",
        help="SQLite file, or postgresql://user@host/name (SFUMATO_DATABASE_URL; sfumato.db).",
    ),
]
LogFormat = Annotated[
    Literal["console", "json"] | None, typer.Option(help="Format of the log on standard error.")
]

serve = typer.Typer(**SETTINGS)
worker = typer.Typer(**SETTINGS)
operator_key = typer.Typer(**SETTINGS)
migrate = typer.Typer(**SETTINGS)
backup = typer.Typer(**SETTINGS)
restore = typer.Typer(**SETTINGS)
copy = typer.Typer(**SETTINGS)
check_store = typer.Typer(**SETTINGS)


class _Serve(TyperCommand):
    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, then every setting with its default, as TOML."""
        from sfumato.aggregator.cli.settings import list_settings

        super().format_epilog(ctx, formatter)
        formatter.write(
            "\n  Settings, as the file of --config states them. SFUMATO_PORT=9000 is the same as\n"
            f"  port = 9000. NUMBER and FILE mark settings without a default:\n{list_settings()}"
        )


@serve.command(
    cls=_Serve,
    epilog=list_examples(
        "sfumato serve                                  # SQLite file sfumato.db, http://127.0.0.1:8750",
        "sfumato serve --database trial.db --port 0     # a trial: a file and a port of its own",
        "sfumato serve --host 0.0.0.0 --port 443 --tls-cert chain.pem --tls-key key.pem",
        "sfumato serve --host 0.0.0.0 --behind-proxy --proxies 10.0.0.2   # that proxy ends TLS",
        "sfumato serve --database postgresql://sfumato@db/sfumato --log-format json",
        "sfumato serve --config /etc/sfumato.toml       # every setting in a file",
    )
    + """

\b
First steps, in another terminal:
  sfumato operator-key --name me                 # then: export SFUMATO_KEY=sfk_...
  sfumato study create weather plan.toml         # prints the study's id
  sfumato study token STUDY                      # prints a token for one device""",
)
def _serve(
    config: Config = None,
    database_url: Database = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on (SFUMATO_HOST; 127.0.0.1).")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="0 takes a free one (SFUMATO_PORT; 8750).")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Certificate chain: speak HTTPS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Private key of the certificate.")
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="PEM", help="Authority that must have signed the certificates of clients."
        ),
    ] = None,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            help="A proxy in front ends TLS: allows plain HTTP beyond this machine.",
        ),
    ] = False,
    proxies: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESSES",
            help="Of that proxy, by commas; its X-Forwarded-... is trusted (127.0.0.1,::1).",
        ),
    ] = None,
    webhook_hosts: Annotated[
        str | None,
        typer.Option(
            metavar="HOSTS",
            help="Permit to webhooks besides public hosts: names, *.suffix, addresses, networks.",
        ),
    ] = None,
    n_workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Decoding processes (1).")
    ] = None,
    no_worker: Annotated[
        bool,
        typer.Option(
            "--no-worker", help="Start no decoding process; run `sfumato worker` elsewhere."
        ),
    ] = False,
    log_format: LogFormat = None,
) -> int:
    """Run the aggregator: receive sketches, add them up, recover centroids.

    It stops gracefully on SIGTERM and Ctrl-C, waits for a database that does not answer or has no
    tables yet, and never logs a key, a token or a body.
    """
    from sfumato.aggregator.cli.server import run_server
    from sfumato.aggregator.cli.settings import read_settings

    settings = read_settings(
        config=config,
        database_url=database_url,
        host=host,
        port=port,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_client_ca=tls_client_ca,
        behind_proxy=behind_proxy or None,
        proxies=proxies,
        webhook_hosts=webhook_hosts,
        n_workers=0 if no_worker else n_workers,
        log_format=log_format,
    )
    return run_server(settings)


@worker.command(
    epilog=list_examples(
        "sfumato worker                                # for `sfumato serve` in the same folder",
        "sfumato worker --database postgresql://sfumato@db/sfumato --lease 120",
    )
)
def _worker(
    config: Config = None,
    database_url: Database = None,
    lease_s: Annotated[
        float | None,
        typer.Option(
            "--lease",
            metavar="SECONDS",
            help="Until another worker takes over from a silent one (SFUMATO_LEASE_S; 60).",
        ),
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Run one decoding worker on the server's database, until it is stopped."""
    from sfumato.aggregator.cli.settings import read_settings
    from sfumato.aggregator.logs import configure_logging
    from sfumato.aggregator.worker import run_worker

    settings = read_settings(
        config=config, database_url=database_url, lease_s=lease_s, log_format=log_format
    )
    configure_logging(settings.log_format)
    asyncio.run(run_worker(settings))


@operator_key.command(
    epilog=list_examples(
        "export SFUMATO_KEY=$(sfumato operator-key --name me)",
        "sfumato operator-key --name me --database postgresql://sfumato@db/sfumato --json",
    )
)
def _operator_key(
    name: Annotated[str, typer.Option(help="Name of its owner.")],
    config: Config = None,
    database_url: Database = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Create an operator key in the server's database: the first key of a new server.

    Creates the SQLite file if it is missing. The key is shown once; the database keeps only its
    SHA-256. Its owner creates, lists and revokes other keys with `sfumato key`.
    """
    from sfumato.aggregator.cli.databases import create_operator_key

    asyncio.run(create_operator_key(config, database_url, name=name, as_json=as_json))


@migrate.command(
    epilog=list_examples(
        "sfumato migrate --database postgresql://sfumato@db/sfumato",
        "sfumato migrate --new-generation     # after restoring the database from a backup",
    )
)
def _migrate(
    config: Config = None,
    database_url: Database = None,
    to: Annotated[
        str,
        typer.Option(
            metavar="VERSION", help="Schema version, also an earlier one; base drops all tables."
        ),
    ] = "head",
    new_generation: Annotated[
        bool,
        typer.Option(
            "--new-generation",
            help="Tell devices that the database was restored: they send again what it lacks.",
        ),
    ] = False,
) -> None:
    """Create the tables, or bring them to the schema of this release.

    Stop every server on the database and make a backup first.
    """
    from sfumato.aggregator.cli.databases import migrate_tables

    asyncio.run(migrate_tables(config, database_url, to=to, new_generation=new_generation))


@backup.command(
    epilog=list_examples(
        "sfumato backup /backups/sfumato-2026-03-01.db",
        "sfumato backup /backups/now.db --database /var/lib/sfumato/sfumato.db",
    )
)
def _backup(
    file: Annotated[Path, typer.Argument(help="File to write; it must not exist.")],
    config: Config = None,
    database_url: Database = None,
) -> None:
    """Back up a SQLite database at one moment, while servers keep running.

    The file appears whole and checked as by `check-store`, or not at all. For Postgres use pg_dump.
    """
    from sfumato.aggregator.cli.backups import write_backup

    asyncio.run(write_backup(file, config, database_url))


@restore.command(
    epilog=list_examples(
        "mv /var/lib/sfumato/sfumato.db /var/lib/sfumato/broken.db   # with every server stopped",
        "sfumato restore /backups/sfumato-2026-03-01.db --database /var/lib/sfumato/sfumato.db",
    )
)
def _restore(
    file: Annotated[Path, typer.Argument(help="Backup to read; it is not changed.")],
    config: Config = None,
    database_url: Database = None,
) -> None:
    """Restore a SQLite database from a backup, under a new generation.

    The new generation makes devices send again what they sent in the last 30 days; a sketch that is
    stored already counts once. Stop every server first, and move the old file away with its -wal
    and -shm.
    """
    from sfumato.aggregator.cli.backups import restore_backup

    asyncio.run(restore_backup(file, config, database_url))


@copy.command(
    epilog=list_examples(
        "sfumato copy --to postgresql://sfumato@db/sfumato",
        "sfumato copy --database postgresql://sfumato@db/sfumato --to sfumato.db",
    )
)
def _copy(
    to: Annotated[str, typer.Option(metavar="PATH_OR_URL", help="The empty database.")],
    config: Config = None,
    database_url: Database = None,
) -> None:
    """Copy a database into an empty one, such as from SQLite to Postgres.

    All studies, devices, sketches, sums, results and keys are copied. Stop every server first. All
    rows are committed together, after every sum was checked against its sketches; an interrupted
    copy can be run again.
    """
    from sfumato.aggregator.cli.databases import copy_into

    asyncio.run(copy_into(to, config, database_url))


@check_store.command(
    epilog=list_examples(
        "sfumato check-store --database sfumato.db",
        "sfumato check-store --database postgresql://sfumato@db/sfumato --json",
    )
)
def _check_store(
    config: Config = None,
    database_url: Database = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> int:
    """Check that the whole database is consistent.

    Recomputes every sum from the stored sketches; checks digests, headers, signatures, counts and
    references. It changes nothing, and reads one moment, so servers may run meanwhile.

    A gap in the sequence numbers of a stream is a warning, with exit status 3: its device may not
    have sent these sketches yet, or they were refused for good, or an older database was put in
    place by hand. Use `sfumato restore` for that: then devices send again what it lacks.
    Sketches behind the last stored one are named once their device's heartbeat claims an answer
    for them, as after the loss of a -wal file.
    """
    from sfumato.aggregator.cli.checks import check

    return asyncio.run(check(config, database_url, as_json=as_json))
