"""``sfumato helper``: the commands of the second server's operator."""

from __future__ import annotations

import json
import logging
import secrets
import time
from contextlib import closing
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from sfumato.shared.command import SETTINGS, list_examples
from sfumato.shared.wire.objects.declaration import to_rfc3339

# The work is imported late. Without its packages, the command counts as not installed.
if find_spec("starlette") is None:
    raise ModuleNotFoundError("no module named starlette", name="starlette")

app = typer.Typer(
    **SETTINGS, help="Run the second server of a secure sum, for an organisation of its own."
)

Database = Annotated[
    str,
    typer.Option(
        metavar="PATH_OR_URL",
        envvar="SFUMATO_HELPER_DATABASE",
        help="SQLite file, or postgresql://user@host/name.",
    ),
]
Keys = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", envvar="SFUMATO_HELPER_KEYS", help="Secret keys; never in a backup."
    ),
]
JournalFile = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        envvar="SFUMATO_HELPER_JOURNAL",
        help="Journal of answers; best on another volume than the database.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_DATABASE = "helper.db"
_KEYS = Path("helper-keys")
_JOURNAL = Path("helper.journal")


@app.command(epilog=list_examples("sfumato helper identity --keys /var/lib/helper/keys"))
def identity(keys: Keys = _KEYS, as_json: Json = False) -> None:
    """Show the identity of this helper; make it if there is none.

    Owners of devices write its fingerprint into their policy. Give it to them yourself, on a way
    that the operator of the other server does not control.
    """
    from cryptography.hazmat.primitives import hashes

    from sfumato.helper.keys import KeyFolder

    public = KeyFolder(keys).make_identity().public_key().public_bytes_raw()
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public)
    fingerprint = digest.finalize().hex()
    if as_json:
        print(json.dumps({"identity": public.hex(), "fingerprint": fingerprint}))
        return
    print(f"identity     {public.hex()}\nfingerprint  {fingerprint}")
    print(f'For owners: [policy] releases = ["sum.v1"], helpers = ["{fingerprint}"]')


@app.command(epilog=list_examples("sfumato helper key --name 'Example University'"))
def key(
    name: Annotated[str, typer.Option(help="The organisation that runs the other server.")],
    database: Database = _DATABASE,
    as_json: Json = False,
) -> None:
    """Make the key by which the other server calls this one; it is shown once."""
    from sfumato.helper.app import hash_key
    from sfumato.helper.tables import leader_keys, open_database, write

    secret = f"sfh_{secrets.token_urlsafe(32)}"
    with write(open_database(database)) as connection:
        connection.execute(
            leader_keys.insert().values(key_hash=hash_key(secret), name=name, created=time.time())
        )
    print(json.dumps({"key": secret}) if as_json else secret)


@app.command(
    epilog=list_examples("sfumato helper accept draft.json --name 'Patients' --out plan.json")
)
def accept(
    draft: Annotated[Path, typer.Argument(metavar="FILE", help="The draft of a plan, JSON.")],
    name: Annotated[str, typer.Option(help="This organisation, as owners will read it.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The accepted plan, JSON.")],
    database: Database = _DATABASE,
    keys: Keys = _KEYS,
    leader: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Whose keys reach its batches, as in `sfumato helper key`; may be left out for "
            "the only one.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Read what a plan promises in this organisation's name, then accept it under a key of its own.

    The statement is shown first. The accepted plan goes back to the operator of the other server.
    """
    from sfumato.helper.acceptance import Plans
    from sfumato.helper.keys import KeyFolder
    from sfumato.helper.tables import open_database
    from sfumato.shared.errors import ConfigError, DiskError
    from sfumato.shared.plan import (
        compute_plan_digest,
        describe_trust,
        draft_from_json,
        plan_to_json,
    )

    try:
        document = json.loads(draft.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot be read as JSON: {error}",
            field=str(draft),
            fix="ask for the draft that `sfumato plan new` writes, in a file that ends in .json",
        ) from error
    if out.exists():
        raise ConfigError("exists already", field="out", fix="choose another file")
    plan = draft_from_json(document)
    plans_of_helper = Plans(database=open_database(database), keys=KeyFolder(keys))
    chosen = plans_of_helper.choose_leader(leader)
    typer.echo(describe_trust(plan, helper=name), err=True)
    if not yes and not typer.confirm("Accept this plan?", err=True):
        raise typer.Exit(2)
    accepted = plans_of_helper.accept(plan, name=name, now=time.time(), leader=chosen)
    digest = compute_plan_digest(accepted).hex()
    try:
        out.write_text(json.dumps(plan_to_json(accepted), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        out.unlink(missing_ok=True)
        raise DiskError(
            f"{out} cannot be written ({error.strerror}), and the plan is accepted",
            field="out",
            fix=f"free space, run `sfumato helper retire {digest}`, and accept the draft again",
        ) from error
    typer.echo(
        f"accepted {digest} for {chosen}: send {out} to the operator "
        "of the other server, who runs `sfumato study create`",
        err=True,
    )


@app.command(epilog=list_examples("sfumato helper plans --json"))
def plans(database: Database = _DATABASE, as_json: Json = False) -> None:
    """List the accepted plans."""
    from sfumato.helper.acceptance import Plans
    from sfumato.helper.keys import KeyFolder
    from sfumato.helper.tables import open_database

    rows = Plans(database=open_database(database), keys=KeyFolder(_KEYS)).list()
    listed = [
        {
            "digest": row.digest.hex(),
            "leader": row.leader,
            "accepted": row.accepted,
            "retired": row.retired,
        }
        for row in rows
    ]
    if as_json:
        print(json.dumps(listed))
        return
    for each in listed:
        state = "retired" if each["retired"] else "accepted"
        print(each["digest"], state, each["leader"] or "any leader")
    if not listed:
        print("no plan yet: accept one with `sfumato helper accept`")


@app.command(epilog=list_examples("sfumato helper serve --port 8760"))
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for a free one.")] = 8760,
    database: Database = _DATABASE,
    keys: Keys = _KEYS,
    journal: JournalFile = _JOURNAL,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="Certificate.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key.")] = None,
) -> None:
    """Serve until stopped; it refuses to start if a backup of its database was restored."""
    from sfumato.helper.server import run_helper

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run_helper(
        host=host,
        port=port,
        database=database,
        keys=keys,
        journal=journal,
        tls_cert=tls_cert,
        tls_key=tls_key,
        version=version("sfumato"),
    )


@app.command(epilog=list_examples("sfumato helper retire DIGEST"))
def retire(
    digest: Annotated[str, typer.Argument(metavar="DIGEST", help="The plan's digest.")],
    database: Database = _DATABASE,
    keys: Keys = _KEYS,
) -> None:
    """Destroy the key and the seeds of a plan for good: what is not opened yet never can be."""
    from sfumato.helper.acceptance import Plans
    from sfumato.helper.keys import KeyFolder
    from sfumato.helper.tables import open_database
    from sfumato.shared.errors import ConfigError

    try:
        plan_digest = bytes.fromhex(digest)
    except ValueError as error:
        raise ConfigError(
            "must be 64 hexadecimal digits", field="DIGEST", fix="see `sfumato helper plans`"
        ) from error
    held = Plans(database=open_database(database), keys=KeyFolder(keys))
    dropped = held.retire(plan_digest, now=time.time())
    typer.echo(f"retired; {dropped} report(s) that were not opened never can be", err=True)


@app.command(epilog=list_examples("sfumato helper restored"))
def restored(
    database: Database = _DATABASE, keys: Keys = _KEYS, journal: JournalFile = _JOURNAL
) -> None:
    """Go on after a backup of the database was restored: give up all reports without an answer."""
    from sfumato.helper.server import open_helper

    _, batches = open_helper(database=database, keys=keys, journal=journal)
    with closing(batches.journal):
        dropped, burnt_before = batches.mark_restored()
    typer.echo(
        f"{dropped} report(s) given up; no report of a slot that begins before "
        f"{to_rfc3339(burnt_before)} is taken any more; check that time: a clock that is ahead "
        "gives up slots to come",
        err=True,
    )
