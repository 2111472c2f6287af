"""Enrol a microcontroller, and write the headers that its firmware is compiled with.

CODE is the line that `sfumato study token STUDY --code` printed; - reads it from standard input.
The plan is verified as every device verifies it. FOLDER then holds

  plan.h          the plan; the same for all devices of the study
  identity.h      the device's identity, its stream and the server's address
  key.h           its key, for firmware that signs by itself; secret
  device.key      the same key as PEM, to load it into a secure element; secret
  enrolment.json  the above without secrets

One folder is one device. If the server's answer is lost, run the same command again: it goes on
with the same key. A key is never overwritten.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from clients.c.make_plan import compile_plan, render_bytes, render_text
from sfumato.device_agent.agent.device import require_labels
from sfumato.device_agent.agent.enrol import verify_plan
from sfumato.device_agent.server.transport import ServerClient
from sfumato.device_agent.store.disk import naming_file
from sfumato.device_agent.store.key import KEY_NAME, create_key, load_key
from sfumato.shared.command import EXIT_FAILED, EXIT_REFUSED
from sfumato.shared.durable_files import replace_file
from sfumato.shared.errors import (
    AccessError,
    ConfigError,
    DiskError,
    NotFoundError,
    SketchError,
    TransportError,
)
from sfumato.shared.hosts import is_loopback
from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import (
    EnrolmentCode,
    decode_enrolment_code,
    device_id_of,
    encode_proof_input,
)

RECORD_NAME = "enrolment.json"
SECRET_NAME = "key.h"
_STREAM_BYTES = 64
_KEY_BYTES = 32
_SIGN_S = 60.0
_SECRET, _PUBLIC = 0o600, 0o644


class Signer(Protocol):
    """A device's key, wherever it lies."""

    @property
    def public_bytes(self) -> bytes:
        """The public half, 32 bytes."""
        ...

    def sign(self, data: bytes) -> bytes:
        """Return the Ed25519 signature of some bytes."""
        ...


@dataclass(frozen=True, kw_only=True)
class ElementKey:
    """Key in a secure element, which a command lets sign.

    Parameters
    ----------
    public_bytes
        Its public half.
    command
        Reads the bytes from its standard input, and prints the signature in hexadecimal.
    """

    public_bytes: bytes
    command: Sequence[str]

    def sign(self, data: bytes) -> bytes:
        """Return the signature that the command prints.

        Raises
        ------
        ConfigError
            The command fails, or prints something else.
        """
        try:
            done = subprocess.run(
                list(self.command), input=data, capture_output=True, timeout=_SIGN_S, check=True
            )
            signature = bytes.fromhex(done.stdout.decode("ascii"))
            Ed25519PublicKey.from_public_bytes(self.public_bytes).verify(signature, data)
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()
            raise _refuse_signature(f"failed ({said or error})") from error
        except OSError as error:
            raise _refuse_signature(f"cannot be run ({error.strerror})") from error
        except (ValueError, InvalidSignature) as error:
            raise _refuse_signature("must print this key's signature, 128 digits") from error
        return signature


def _refuse_signature(rule: str) -> ConfigError:
    return ConfigError(
        rule, field="--sign", fix="let the element sign standard input by Ed25519 (RFC 8032)"
    )


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """State of a device in its folder, without secrets.

    Parameters
    ----------
    device_id, public_key
        Empty while the state is ``prepared``.
    state
        ``prepared`` before the key is made, ``offered`` until the server is known to have taken it,
        then ``enrolled``.
    """

    study: str
    server: str
    stream: str
    labels: Mapping[str, str]
    device_id: str = ""
    public_key: str = ""
    state: str = "prepared"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Arguments of one run: a code, and the folder of its device."""

    code: EnrolmentCode
    folder: Path
    stream: str = "sensor"
    labels: Mapping[str, str] = field(default_factory=dict)
    element: ElementKey | None = None
    from_seed: bool = False


def enrol(
    wanted: Wanted, *, clock: Callable[[], float] = time.time
) -> tuple[Enrolment, SketchPlan, bool]:
    """Enrol a device, and write its files; repeating it is harmless.

    Returns
    -------
    The enrolment, the plan, and whether the device was enrolled already.

    Raises
    ------
    SketchError
        Nothing was enrolled; or, where the error says so, the server may have enrolled the device,
        and the same command goes on.
    """
    _require_stream(wanted.stream)
    was_there = wanted.folder.exists()
    with naming_file(wanted.folder):
        wanted.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _holding(wanted.folder):
        try:
            return _enrol_in(wanted, clock)
        except SketchError:
            if not was_there and not any(wanted.folder.iterdir()):
                wanted.folder.rmdir()
            raise


def _enrol_in(wanted: Wanted, clock: Callable[[], float]) -> tuple[Enrolment, SketchPlan, bool]:
    folder, code = wanted.folder, wanted.code
    known = read_enrolment(folder)
    key = _load_signer(wanted, known)
    # Plans are public: the request is not signed.
    with ServerClient(code.server, device=bytes(32), sign=lambda _: b"", clock=clock) as client:
        plan = verify_plan(client.fetch_plan(code.study), code.study)
        header = compile_plan(plan, code.study, from_seed=wanted.from_seed)
        require_labels(wanted.labels, plan)
    is_new = known is None
    enrolment = known or Enrolment(
        study=code.study.hex(),
        server=code.server,
        stream=wanted.stream,
        labels=dict(wanted.labels),
    )
    # Before each step there is written what a run that goes on after a crash must know.
    _write_enrolment(folder, enrolment)
    key = key or create_key(folder)
    device = device_id_of(key.public_bytes)
    if enrolment.state == "prepared":
        enrolment = replace(
            enrolment,
            device_id=device.hex(),
            public_key=key.public_bytes.hex(),
            state="offered",
        )
        _write_enrolment(folder, enrolment)
    with ServerClient(code.server, device=device, sign=key.sign, clock=clock) as client:
        try:
            was_enrolled = not is_new and _is_known(client)
            if not was_enrolled:
                _offer(client, wanted, key)
        except TransportError as error:
            raise _keep(error, folder) from error
        except SketchError:
            if is_new:
                for name in (KEY_NAME, RECORD_NAME):
                    (folder / name).unlink(missing_ok=True)
            raise
    enrolment = replace(enrolment, server=code.server, state="enrolled")
    write_device(folder, enrolment, header, has_key=wanted.element is None)
    return enrolment, plan, was_enrolled


def _keep(error: SketchError, folder: Path) -> TransportError:
    return TransportError(
        f"{error}. The server may have enrolled this device anyway, so its key stays in {folder}",
        fix="run the same command again; it goes on with the same key",
    )


def _is_known(client: ServerClient) -> bool:
    try:
        client.fetch_device()
    except (AccessError, NotFoundError):
        return False
    return True


def _offer(client: ServerClient, wanted: Wanted, key: Signer) -> None:
    code = wanted.code
    proof_input = encode_proof_input(
        token=code.token, study=code.study, public_key=key.public_bytes, labels=wanted.labels
    )
    stated = client.enrol(
        token=code.token,
        study=code.study,
        public_key=key.public_bytes,
        labels=wanted.labels,
        proof=key.sign(proof_input),
    )
    if stated != device_id_of(key.public_bytes).hex():
        raise TransportError(
            "must answer with this device's id, and answered with another",
            field="server",
            fix="check the address; something else may be answering there",
        )


# ---- the folder ----


@contextmanager
def _holding(folder: Path) -> Iterator[None]:
    """Keep other runs of this command out of a folder."""
    with naming_file(folder):
        place = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{folder} is in use by another run of this command",
                field="--folder",
                fix="wait until it has ended",
            ) from error
        yield
    finally:
        os.close(place)


def read_enrolment(folder: Path) -> Enrolment | None:
    """Read what a folder says of its device; None if it says nothing.

    Raises
    ------
    ConfigError
        It cannot be read.
    """
    path = folder / RECORD_NAME
    try:
        return Enrolment(**json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            "must be as this command wrote it",
            field=str(path),
            fix="restore it, or enrol a new device in another folder",
        ) from error


def _load_signer(wanted: Wanted, known: Enrolment | None) -> Signer | None:
    """Return the key of a folder, or None if one is to be made; refuse those of other devices."""
    folder, element = wanted.folder, wanted.element
    kept = load_key(folder)
    if known is None:
        for name in (KEY_NAME, SECRET_NAME):
            if (folder / name).exists():
                raise ConfigError(
                    f"{folder / name} is there already, and a key is never overwritten",
                    field="--folder",
                    fix="name another folder for this device",
                )
        return element
    given = {
        "study": wanted.code.study.hex(), "stream": wanted.stream, "labels": dict(wanted.labels)
    }  # fmt: skip
    for name, value in given.items():
        if value != getattr(known, name):
            raise ConfigError(
                f"{folder} is of a device with another {name}: {getattr(known, name)}",
                field="--folder",
                fix="name another folder for this device",
            )
    key: Signer | None = element or kept
    if known.state == "prepared":
        return key
    if key is None:
        raise ConfigError(
            "is missing, and the server may know this device by it",
            field=str(folder / KEY_NAME),
            fix="restore it, or enrol a new device in another folder",
        )
    if key.public_bytes.hex() != known.public_key:
        raise ConfigError(
            f"{folder} is of a device with another key: {known.public_key}",
            field="--folder",
            fix="name another folder for this device",
        )
    return key


def _write_enrolment(folder: Path, enrolment: Enrolment) -> None:
    text = json.dumps(asdict(enrolment), indent=1, ensure_ascii=False) + "\n"
    with naming_file(folder / RECORD_NAME):
        replace_file(folder / RECORD_NAME, text.encode("utf-8"), mode=_PUBLIC)


def write_device(folder: Path, enrolment: Enrolment, plan: str, *, has_key: bool) -> None:
    """Write the headers of an enrolled device, and what its folder says of it.

    Parameters
    ----------
    plan
        The header of its plan.
    has_key
        Whether the folder has its key.
    """
    files = {"plan.h": (plan, _PUBLIC), "identity.h": (_render_identity(enrolment), _PUBLIC)}
    if has_key:
        files[SECRET_NAME] = (_render_key(folder / KEY_NAME), _SECRET)
    for name, (text, mode) in files.items():
        with naming_file(folder / name):
            replace_file(folder / name, text.encode("utf-8"), mode=mode)
    _write_enrolment(folder, enrolment)


_MADE = "/* Made by `python -m clients.c.enrol`. {} */\n"


def _render_identity(enrolment: Enrolment) -> str:
    return (
        _MADE.format("Public.") + "#ifndef SFUMATO_IDENTITY_H\n#define SFUMATO_IDENTITY_H\n\n"
        f"#define DEVICE_ID {render_bytes(bytes.fromhex(enrolment.device_id))}\n"
        f"#define DEVICE_STREAM {render_text(enrolment.stream)}\n"
        f"#define DEVICE_SERVER {render_text(enrolment.server)}\n\n#endif\n"
    )


def _render_key(path: Path) -> str:
    private = load_pem_private_key(path.read_bytes(), password=None)
    assert isinstance(private, Ed25519PrivateKey)
    return (
        _MADE.format("Secret: the seed of the device's Ed25519 key (RFC 8032).")
        + "#ifndef SFUMATO_KEY_H\n#define SFUMATO_KEY_H\n\n#include <stdint.h>\n\n"
        f"static const uint8_t DEVICE_KEY[{_KEY_BYTES}] = "
        f"{render_bytes(private.private_bytes_raw())};\n\n#endif\n"
    )


# ---- the command ----


def _require_stream(name: str) -> None:
    if not name.isprintable() or not 1 <= len(name.encode("utf-8")) <= _STREAM_BYTES:
        raise ConfigError(
            f"must have 1 to {_STREAM_BYTES} bytes without control characters",
            field="--stream",
            fix="name what the records come from, such as meter",
        )


def _read_labels(texts: Sequence[str]) -> dict[str, str]:
    labels = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name or name in labels:
            raise ConfigError(
                "must be NAME=VALUE, each name once",
                field="--label",
                fix="write for example --label site=north",
            )
        labels[name] = value
    return labels


def _read_element(public_key: str | None, command: str | None) -> ElementKey | None:
    if public_key is None and command is None:
        return None
    if public_key is None or command is None:
        present, absent = ("--public-key", "--sign") if public_key else ("--sign", "--public-key")
        raise ConfigError(
            f"is missing, and {present} is given",
            field=absent,
            fix="give both where a secure element holds the key, and otherwise none",
        )
    try:
        key, words = bytes.fromhex(public_key), shlex.split(command)
    except ValueError:
        key, words = b"", []
    if len(key) != _KEY_BYTES or not words:
        raise ConfigError(
            "must be 64 hexadecimal digits, and --sign a command",
            field="--public-key",
            fix="read the public key from the element",
        )
    return ElementKey(public_bytes=key, command=words)


def _read_server(text: str) -> str:
    parts = urlsplit(text)
    try:
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number
        is_address = False
    if not is_address:
        raise ConfigError(
            "must be an address that begins with https:// or http://",
            field="--server",
            fix="write for example https://sketches.example.org",
        )
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        sys.stderr.write(
            "warning: server: the connection is not encrypted, and others can read the code's "
            "token. Use https\n"
        )
    return text.rstrip("/")


def _create_parser() -> argparse.ArgumentParser:
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m clients.c.enrol",
        description=f"{summary}\n\n{rest}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example:\n  python -m clients.c.enrol SFUMATO:... --folder meter-7 "
        "--label site=north\n\nExit status: 0 done; 1 the server did not answer, run it again; "
        "2 refused.",
    )
    parser.add_argument("code", metavar="CODE", help="enrolment code, or - for standard input")
    parser.add_argument(
        "--folder", type=Path, default=Path("device"), help="of this device (default: %(default)s)"
    )
    parser.add_argument(
        "--stream", default="sensor", metavar="NAME", help="what records come from (%(default)s)"
    )
    parser.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", help="may be repeated"
    )
    parser.add_argument("--server", metavar="URL", help="another address than the code's")
    parser.add_argument("--public-key", metavar="HEX", help="of a key in a secure element")
    parser.add_argument(
        "--sign",
        metavar="COMMAND",
        help="signs its standard input with that key, and prints the signature in hexadecimal",
    )
    parser.add_argument(
        "--from-seed", action="store_true", help="save flash: draw frequencies for every record"
    )
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    return parser


def _read_arguments(arguments: Sequence[str] | None) -> tuple[Wanted, bool]:
    given = _create_parser().parse_args(arguments)
    line = sys.stdin.readline() if given.code == "-" else given.code
    code = decode_enrolment_code(line)
    server = _read_server(given.server or code.server)
    wanted = Wanted(
        code=replace(code, server=server),
        folder=given.folder,
        stream=given.stream,
        labels=_read_labels(given.label),
        element=_read_element(given.public_key, given.sign),
        from_seed=given.from_seed,
    )
    return wanted, given.json


def _describe(enrolment: Enrolment, plan: SketchPlan, folder: Path, *, was_enrolled: bool) -> str:
    already = " already: nothing new was asked of the server" if was_enrolled else ""
    columns = ", ".join(f"{each.name} ({each.unit})" for each in plan.dimensions)
    return (
        f"device {enrolment.device_id} is enrolled{already}\n"
        f"study {enrolment.study}\n"
        f"each sketch is epsilon = {plan.release.epsilon} differentially private for each record, "
        f"and the device sends at most {plan.most_sketches_per_device}\n"
        f"a record is: {columns}\n"
        f"compile the firmware with -I{folder}; another device needs another --folder\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    try:
        wanted, as_json = _read_arguments(arguments)
        enrolment, plan, was_enrolled = enrol(wanted)
    except SketchError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_FAILED if isinstance(error, TransportError | DiskError) else EXIT_REFUSED
    if as_json:
        document: dict[str, Any] = asdict(enrolment)
        found = {"folder": str(wanted.folder), "was_enrolled": was_enrolled}
        sys.stdout.write(json.dumps(document | found, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_describe(enrolment, plan, wanted.folder, was_enrolled=was_enrolled))
    return 0


if __name__ == "__main__":
    sys.exit(main())
