"""Arguments and help of the command line."""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from sfumato.shared.structure import require_plain

_DESCRIPTION = """\
Sketches the records of this device and releases them with differential privacy.
Records never leave the device."""

_EPILOG = """\
Examples:
  sfumato-agent init --code SFUMATO:...                    enrol this device in its study
  sfumato-agent check                                      look at everything, send nothing
  sfumato-agent once --json                                read, release and send what is new
  sfumato-agent run                                        the same, until it is stopped
  sfumato-agent budget                                     what was spent
  sfumato-agent cluster --csv records.csv                  which cluster each record is in
  sfumato-agent relay --config relay.toml                  forward messages of other devices

Exit status:
  0   done
  2   settings, plan or records are not as they must be, or the server refused
  3   the budget or the ledger forbids a release
  75  the server could not be reached, so sketches wait in the outbox; or the disk is full: run
      again later
  70  a defect of this program

The settings state_dir, server and study can be overridden by SFUMATO_AGENT_STATE_DIR,
SFUMATO_AGENT_SERVER and SFUMATO_AGENT_STUDY."""

_CONFIG = "`sfumato-agent init --print-config` prints a configuration to start from."


RESUME_WARNING = """\
A stream is suspended when the server holds another sketch under the same number: two devices share
a key, or a backup was restored, and records may have been released twice already. Find the other
device and stop it first. What the server holds of it counts as spent beside what this ledger has
released, so the owner's budget may have to be raised before anything more is released; what was
set aside is never sent. The stream then goes on behind the numbers that the other has used; if
that goes on too, the stream is suspended again."""

ROTATION = """\
The device keeps its identity, its ledger and its place in every source. Sketches that wait stay as
the old key has signed them, and the server takes them so. If the server does not answer, both keys
are kept, and the change is finished by the same command, by `once` or by `run`."""

FORGET_WARNING = """\
Sketches that were not sent are lost, and what they cost stays spent. What was spent and how far
sources were read is kept, so that enrolling again in this folder goes on from there. With
--also-the-ledger that is lost too: a device that enrols again releases the same records again. The
owner's ledger, a file of its own, still counts the releases before, and refuses those above the
budget; where that file is gone as well, the promise made for the records holds no longer."""


class UsageError(Exception):
    """The arguments are wrong; argparse's message says how."""


class _Format(argparse.RawDescriptionHelpFormatter):
    """The look of `sfumato`."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None = None) -> None:
        super().add_usage(usage, actions, groups, "Usage: " if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and heading.capitalize())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. Try `{self.prog} --help`")


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments after the program's name.

    Raises
    ------
    UsageError
        They are wrong.
    SystemExit
        Help or version was requested and has been printed.
    """
    options = create_parser().parse_args(arguments)
    if options.command == "init":
        _require_consistent(options)
    if options.command == "relay" and options.json and not (options.once or options.status):
        raise UsageError("--json is only for --once and --status")
    return options


@cache
def create_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = _Parser(
        prog="sfumato-agent",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_Format,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_init(commands)
    _add_check(commands)
    _add_once(commands)
    _add_run(commands)
    for name, text in (
        ("status", "show streams, sketches that wait or were refused, and how many were sent"),
        ("budget", "show every release and what they cost"),
    ):
        command = _add(commands, name, text)
        command.add_argument("--json", action="store_true", help="print JSON and nothing else")
        if name == "status":
            _add_value_counts(command)
    _add_results(commands)
    _add_maintenance(commands)
    _add_relay(commands)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from sfumato.shared import __version__
        from sfumato.shared.core.engines import default_engine, describe_engine

        print(f"sfumato-agent {__version__}")
        print(f"engine: {describe_engine(default_engine())}")
        parser.exit()


def _add(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    text: str,
    epilog: str | None = None,
    *,
    config: bool = True,
) -> _Parser:
    command = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog or f"Example:\n  sfumato-agent {name} --config agent.toml",
        formatter_class=_Format,
        allow_abbrev=False,
    )
    if config:
        command.add_argument(
            "--config",
            type=Path,
            default=Path("agent.toml"),
            metavar="FILE",
            help="the configuration (default: agent.toml)",
        )
    return command


def _add_init(commands: argparse._SubParsersAction[_Parser]) -> None:
    init = _add(
        commands,
        "init",
        "look at the records, make a key and enrol this device in its study; doing it again is "
        "harmless",
        "Examples:\n"
        "  sfumato-agent init --print-config --code SFUMATO:... --csv records.csv > agent.toml\n"
        "  sfumato-agent init --code SFUMATO:...\n"
        "  sfumato-agent init --config agent.toml --token sfe_...\n"
        "  sfumato-agent init                       let a stream join that was added or changed\n\n"
        f"{_CONFIG}\nA code names server, study and token; `init` adds the first two to a\n"
        "configuration that lacks them. A token is as secret as a code: - hides it from others.",
    )
    secret = init.add_mutually_exclusive_group()
    secret.add_argument(
        "--code",
        help="the line that `sfumato study token --code` printed; - reads it from standard input",
    )
    secret.add_argument(
        "--token",
        help="the enrolment token, or a code; - reads it from standard input",
    )
    init.add_argument(
        "--replaces",
        type=_identity,
        metavar="DEVICE",
        help="the id of a lost device, 64 hexadecimal digits: the server ends it, and this one "
        "leaves out records of the slots that it has sent",
    )
    init.add_argument(
        "--print-config",
        action="store_true",
        help="print a configuration with comments, to start from, and do nothing else",
    )
    init.add_argument(
        "--guess",
        metavar="FILE|URL",
        help="look at a file, at the JSON that an address gives, or at what an MQTT topic brings "
        "(mqtt://HOST/TOPIC); print a configuration that reads it, what is doubtful, and its "
        "first records as they will be read, and do nothing else",
    )
    filling = init.add_argument_group("with --print-config")
    filling.add_argument("--csv", metavar="FILE", help="the file with the records")
    filling.add_argument("--timestamp", metavar="COLUMN", help="the column with their time")
    for name, help_text in (
        ("label", "a label that the study declares; may be repeated"),
        ("column", "a dimension and the column that holds it, if named otherwise; may be repeated"),
    ):
        filling.add_argument(
            f"--{name}",
            type=_pair,
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help=help_text,
        )


def _require_consistent(options: argparse.Namespace) -> None:
    """Refuse options of ``init`` that would have no effect."""
    if options.print_config and options.guess is not None:
        raise UsageError("--print-config and --guess both print a configuration: give one")
    if (options.print_config or options.guess is not None) and options.token is not None:
        raise UsageError("a printed configuration takes --code, not --token")
    if options.print_config:
        return
    for name in ("csv", "timestamp", "label", "column"):
        if getattr(options, name):
            raise UsageError(f"--{name} is only for --print-config; edit the configuration")


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator and value):
        raise ValueError
    return name, value


def _add_check(commands: argparse._SubParsersAction[_Parser]) -> None:
    check = _add(
        commands,
        "check",
        "look at settings, source, plan, server, clock and disk; draw no noise and send nothing",
        "Examples:\n  sfumato-agent check\n  sfumato-agent check --json --values\n\n"
        "Before a stream joins, its first records are looked at as they will be sketched. Then\n"
        "more unreadable or clipped ones than [check] allows are an error. Once it has joined\n"
        "they are a warning, and change no exit status.",
    )
    check.add_argument("--json", action="store_true", help="print JSON and nothing else")
    check.add_argument(
        "--values",
        action="store_true",
        help="also show rows and figures that depend on values, exact and without noise: do not "
        "pass them on. A terminal shows them anyway, unless the plan hides how many records there "
        "are and the stream has joined",
    )


def _add_once(commands: argparse._SubParsersAction[_Parser]) -> None:
    once = _add(
        commands,
        "once",
        "read new records, release complete windows, send what waits, and end",
        "Examples:\n  sfumato-agent once\n  sfumato-agent once --json --send-for 120\n\n"
        "A second run without new records releases nothing. Where the plan hides presence, a run\n"
        "first sends what the run before released, and then releases every window that is over.",
    )
    once.add_argument("--json", action="store_true", help="print JSON and nothing else")
    _add_value_counts(once)
    once.add_argument("--no-send", action="store_true", help="leave the sketches in the outbox")
    once.add_argument(
        "--send-for",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long to try sending before leaving it for the next run (default: 30)",
    )


def _add_value_counts(command: _Parser) -> None:
    command.add_argument(
        "--value-counts",
        action="store_true",
        help="also report how many records could not be sketched or lay out of bounds, and their "
        "bytes: exact, so do not pass it on. A terminal shows the former anyway",
    )


def _add_run(commands: argparse._SubParsersAction[_Parser]) -> None:
    run = _add(
        commands,
        "run",
        "read, release and send until stopped",
        "Examples:\n  sfumato-agent run --config /etc/sfumato/agent.toml\n"
        "  sfumato-agent run --config heat.toml --config noise.toml    two studies, one process\n\n"
        "SIGTERM or Ctrl-C stops it within five seconds; SIGHUP reads the configuration again.\n"
        "Where the plan hides presence, start `once` by a timer instead.",
        config=False,
    )
    run.add_argument(
        "--config",
        type=Path,
        action="append",
        metavar="FILE",
        help="the configuration of a study (default: agent.toml); may be repeated",
    )


def _add_results(commands: argparse._SubParsersAction[_Parser]) -> None:
    pull = _add(
        commands,
        "pull",
        "fetch the study's published result, and check that the server has signed it",
        "Examples:\n  sfumato-agent pull\n  sfumato-agent pull --trust KEY --json\n\n"
        "The request is the same from every device. The server's key is trusted as it was when\n"
        "this device enrolled, or at the first pull; a key that it names as its successor is\n"
        "followed. An older result never replaces a newer one.",
    )
    pull.add_argument("--json", action="store_true", help="print JSON and nothing else")
    pull.add_argument(
        "--trust",
        metavar="KEY",
        help="trust this key, as `sfumato identity show` shows it, from now on",
    )
    cluster = _add(
        commands,
        "cluster",
        "find the cluster of each record on this device, by the result that was pulled last",
        "Examples:\n  sfumato-agent cluster --csv records.csv > labelled.csv\n"
        "  tail -f records.csv | sfumato-agent cluster --csv -\n"
        "  sfumato-agent cluster --follow meter --json\n\n"
        "Nothing leaves the device, nothing is stored, and no budget is spent. Cluster 1 is the\n"
        "heaviest. The distance is in units of the plan's scales. A record is far where 999 in\n"
        "1000 records of a Gaussian cluster of the published spreads would be nearer.",
    )
    cluster.add_argument("--json", action="store_true", help="print a JSON object for each record")
    source = cluster.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--csv", type=Path, metavar="FILE", help="label the lines of a CSV file; - reads a pipe"
    )
    source.add_argument(
        "--follow",
        metavar="STREAM",
        help="label the records of a configured stream from its beginning on, until Ctrl-C",
    )
    cluster.add_argument(
        "--stream",
        metavar="STREAM",
        help="with --csv: the stream whose columns and conversions hold; default: the only one",
    )


def _add_maintenance(commands: argparse._SubParsersAction[_Parser]) -> None:
    export = _add(
        commands,
        "export",
        "write the signed sketch of a window to a file, to be carried by hand",
        "Example:\n  sfumato-agent export meter 17 --to meter-17.sketch\n\n"
        "A sketch that waits still does; a server takes it in once, whichever way it comes.\n"
        "Whether another copy of this state has sent the same window cannot be asked that way.",
    )
    export.add_argument("stream")
    export.add_argument("sequence", type=_whole, help="the number of the sketch; see `budget`")
    export.add_argument("--to", type=Path, required=True, metavar="FILE", help="a new file")
    resume = _add(
        commands,
        "resume",
        "let a stream go on that was suspended after an incident",
        "Example:\n  sfumato-agent resume meter --i-understand\n\n" + RESUME_WARNING,
    )
    resume.add_argument("stream")
    resume.add_argument("--i-understand", action="store_true", help="what is said here")
    rotate = _add(
        commands,
        "rotate-key",
        "give this device another key, or finish a change that was begun; stop the agent first",
        "Example:\n  sfumato-agent rotate-key --config agent.toml\n\n" + ROTATION,
    )
    rotate.add_argument("--json", action="store_true", help="print JSON and nothing else")
    forget = _add(
        commands,
        "forget",
        "erase this device's key, its open windows and its sketches",
        "Example:\n  sfumato-agent forget --yes\n\n" + FORGET_WARNING,
    )
    forget.add_argument("--yes", action="store_true", help="do it; it cannot be undone")
    forget.add_argument(
        "--also-the-ledger",
        action="store_true",
        help="forget what was spent too, and how far sources were read",
    )
    forget.add_argument(
        "--records-may-be-released-again",
        action="store_true",
        help="confirms what --also-the-ledger means",
    )


def _add_relay(commands: argparse._SubParsersAction[_Parser]) -> None:
    relay = _add(
        commands,
        "relay",
        "forward signed messages of other devices, such as microcontrollers, to the server",
        "Examples:\n  sfumato-agent relay --config relay.toml\n"
        "  sfumato-agent relay --config relay.toml --once\n"
        "  sfumato-agent relay --config relay.toml --status --json\n\n"
        "A message is on this disk before it is acknowledged, and is forwarded as it is until the\n"
        "server has answered. The relay has no key: it can delay or lose a message, never change\n"
        "it. SIGTERM or Ctrl-C stops it.",
        config=False,
    )
    relay.add_argument(
        "--config",
        type=Path,
        default=Path("relay.toml"),
        metavar="FILE",
        help="the configuration of the relay (default: relay.toml)",
    )
    which = relay.add_mutually_exclusive_group()
    which.add_argument(
        "--once",
        action="store_true",
        help="take what lies in the spool, send what waits, write the answers, and end; status 75 "
        "if messages wait on",
    )
    which.add_argument("--status", action="store_true", help="show the queue, and change nothing")
    relay.add_argument(
        "--json",
        action="store_true",
        help="with --once or --status: print JSON and nothing else",
    )


def _identity(text: str) -> bytes:
    found = bytes.fromhex(text)
    if len(found) != 32:
        raise ValueError
    return found


def _whole(text: str) -> int:
    return int(require_plain(text))


def _seconds(text: str) -> float:
    seconds = float(require_plain(text))
    if not 0 <= seconds <= 1e9:
        raise ValueError
    return seconds
