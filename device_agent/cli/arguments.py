"""The command line's grammar and help."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

_DESCRIPTION = """\
Sketches the records of this device and releases them with differential privacy.
Records never leave the device."""

_EPILOG = """\
examples:
  sfumato-agent init --config agent.toml --token sfe_...   enrol this device in its study
  sfumato-agent check                                      look at everything, send nothing
  sfumato-agent once --json                                read, release and send what is new
  sfumato-agent budget                                     what was spent

exit status:
  0   done
  2   settings, plan or records are not as they must be, or the server refused
  3   the budget or the ledger forbids a release
  75  the server could not be reached; sketches wait in the outbox, run again later
  70  a defect of this program

The settings state_dir, server and study can be overridden by SFUMATO_AGENT_STATE_DIR,
SFUMATO_AGENT_SERVER and SFUMATO_AGENT_STUDY."""

_CONFIG = """\
a configuration file:
  state_dir = "state"                     # key, ledger and outbox; relative to this file
  server = "https://sketches.example.org"
  study = "64 hexadecimal digits"
  labels = { region = "north" }           # if the study declares labels

  [budget]                                # the most you allow; without it, no limit
  per_record = "1"                        # epsilon, exact and in quotes
  lifetime = "30"

  [[streams]]
  name = "meter"
  [streams.source]
  kind = "csv"
  path = "records.csv"
  timestamp = "time"                      # the column with each record's time
  timestamp_format = "iso8601"            # or "unix"
  [streams.columns]                       # dimension = "column", where the names differ
  temperature = "temp_c\""""


class UsageError(Exception):
    """The arguments are wrong; argparse's message says how."""


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
        Help or version was asked for and has been printed.
    """
    parser = _Parser(
        prog="sfumato-agent",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_init(commands)
    _add(
        commands,
        "check",
        "look at settings, source, plan, server, clock and disk; draw no noise and send nothing",
    )
    _add_once(commands)
    for name, text in (
        ("status", "show streams, and sketches that wait, were sent or were refused"),
        ("budget", "show every release and what they cost"),
    ):
        command = _add(commands, name, text)
        command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(arguments)


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib import metadata

        print(f"sfumato-agent {metadata.version('sfumato')}")
        parser.exit()


def _add(
    commands: argparse._SubParsersAction[_Parser], name: str, text: str, epilog: str | None = None
) -> _Parser:
    command = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=epilog or f"example:\n  sfumato-agent {name} --config agent.toml",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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
        "make a key and enrol this device in its study; doing it again is harmless",
        "example:\n  sfumato-agent init --config agent.toml --token sfe_...\n\n" + _CONFIG,
    )
    init.add_argument(
        "--token",
        required=True,
        help="the enrolment token from the study's operator; - reads it from standard input",
    )


def _add_once(commands: argparse._SubParsersAction[_Parser]) -> None:
    once = _add(
        commands,
        "once",
        "read new records, release complete windows, send what waits, and end",
        "examples:\n  sfumato-agent once\n  sfumato-agent once --json --send-for 120\n\n"
        "A second run without new records releases nothing. Where the plan hides presence, a run\n"
        "first sends what the run before released, and then releases every window that is over.",
    )
    once.add_argument("--json", action="store_true", help="print one JSON object")
    once.add_argument("--no-send", action="store_true", help="leave the sketches in the outbox")
    once.add_argument(
        "--send-for",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="how long to try sending before leaving it for the next run (default: 30)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 1e9:
        raise ValueError
    return seconds
