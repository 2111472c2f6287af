"""The `sfumato` command: it finds the sub-commands that the installed packages contribute.

A package contributes one by an entry point in the group ``sfumato.commands`` that names a
function ``run(argv: list[str]) -> int``. The first line of its docstring is the help line. The
packages stay apart: none imports another to be reachable under the one name `sfumato`.

Only the console script imports this module. argparse alone, for a device has no other parser.
"""

import argparse
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

from shared.errors import SketchError

GROUP = "sfumato.commands"

EXIT_USAGE = 2

Command = Callable[[list[str]], int]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """The module that a registered command lacks here; `extra` is what would provide it."""

    module: str
    extra: str | None

    @property
    def fix(self) -> str:
        """The command line that installs what is missing; if none does, the module's name."""
        if self.extra is None:
            return f"needs the module {self.module}"
        return f"pip install 'sfumato[{self.extra}]'"


def find_commands() -> dict[str, metadata.EntryPoint]:
    """Find the registered commands by name, in alphabetical order; nothing is imported."""
    found = metadata.entry_points(group=GROUP)
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def load_command(entry: metadata.EntryPoint) -> Command | Missing:
    """Import a command, or say what it misses.

    Parameters
    ----------
    entry
        A registered command.

    Returns
    -------
    Command or Missing
        The function to call, or what to install when one of its imports is not there. Every
        other failure of the import is a defect and is raised as it is.
    """
    try:
        command: Command = entry.load()
    except ModuleNotFoundError as error:
        module = error.name or str(error)
        return Missing(module=module, extra=_find_extra(entry, module))
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Run `sfumato` and return its exit status.

    Parameters
    ----------
    argv
        The arguments after the program's name; those of the process when not given.

    Returns
    -------
    int
        What the command returned; 2 when it refused its input, is not there or not installed.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # All that follows a command's name is its own, options such as --help included.
    if arguments and not arguments[0].startswith("-"):
        return _run_command(arguments[0], arguments[1:])
    parser = argparse.ArgumentParser(prog="sfumato", add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="store_true")
    try:
        options = parser.parse_args(arguments)
    except SystemExit:  # argparse has said what is wrong
        return EXIT_USAGE
    if options.version:
        return _print_version()
    print(format_help(), file=sys.stdout if options.help else sys.stderr)
    return 0 if options.help else EXIT_USAGE


def format_help() -> str:
    """Write the help text: each command with one line, and what would provide the others."""
    available: list[tuple[str, str]] = []
    unavailable: list[tuple[str, str]] = []
    for name, entry in find_commands().items():
        command = load_command(entry)
        if isinstance(command, Missing):
            unavailable.append((name, command.fix))
        else:
            available.append((name, _first_line(command)))
    width = max((len(name) for name, _ in available + unavailable), default=0)
    lines = [
        "usage: sfumato COMMAND [ARGUMENT ...]",
        "       sfumato --help | --version",
        "",
        "commands (sfumato COMMAND --help says more):",
        *_format_rows(available, width),
    ]
    if unavailable:
        lines += ["", "not installed here:", *_format_rows(unavailable, width)]
    return "\n".join(lines)


def _print_version() -> int:
    # NumPy comes with it, which no other option needs.
    from shared.core.engines import ENGINE_VARIABLE, choose_engine, describe_engine  # noqa: PLC0415

    print(f"sfumato {metadata.version('sfumato')}")
    try:
        engine = choose_engine(os.environ.get(ENGINE_VARIABLE))
    except SketchError as error:
        return _refuse(f"error: {error}")
    print(f"engine: {describe_engine(engine)}")
    return 0


def _run_command(name: str, arguments: list[str]) -> int:
    entries = find_commands()
    if name not in entries:
        known = ", ".join(entries) or "none"
        return _refuse(f"no command {name!r}; known commands: {known}")
    command = load_command(entries[name])
    if isinstance(command, Missing):
        return _refuse(f"the command {name!r} is not installed here: {command.fix}")
    try:
        return command(arguments)
    except SketchError as error:
        return _refuse(f"error: {error}")


def _refuse(message: str) -> int:
    print(f"sfumato: {message}", file=sys.stderr)
    return EXIT_USAGE


def _find_extra(entry: metadata.EntryPoint, missing: str) -> str | None:
    """Find the extra that provides a module which a command misses.

    An extra is named after the package whose imports it provides, so that this module need not
    know the packages above it. No extra provides a module of the package itself.
    """
    package = entry.module.partition(".")[0]
    if missing.partition(".")[0] == package:
        return None
    offered = entry.dist.metadata.get_all("Provides-Extra") if entry.dist else None
    return package if package in (offered or ()) else None


def _first_line(command: Command) -> str:
    documentation = inspect.getdoc(command) or ""
    return documentation.partition("\n")[0]


def _format_rows(rows: list[tuple[str, str]], width: int) -> list[str]:
    if not rows:
        return ["  none"]
    return [f"  {name:<{width}}  {text}".rstrip() for name, text in rows]
