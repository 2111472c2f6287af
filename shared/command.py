"""The `sfumato` command: it finds the sub-commands that the installed packages contribute.

A package contributes one by an entry point in the group ``sfumato.commands`` that names a Typer
application. The packages stay apart: none imports another to be reachable under the one name
`sfumato`. typer itself is never imported here, because an installation for a device has none.
"""

import ast
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sfumato.shared.errors import ConfigError, DiskError, SketchError, TransportError
from sfumato.shared.structure import require_plain

GROUP = "sfumato.commands"

EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_STOPPED = 130

SETTINGS: dict[str, Any] = {
    "no_args_is_help": True,
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}
"""Arguments of every ``typer.Typer`` of the project."""

EXIT_STATUSES = """\
  0    done
  1    the server or the database does not answer, or a check found a fault
  2    refused; the error names the option, file or field, and the fix
  3    `check-store` found gaps in the numbers of sketches, and no fault
  130  stopped by Ctrl-C"""

_TYPERS_WORDS = (
    ("^Value error, ", ""),
    ("^Input should be ", "must be "),
    (", unable to parse .*", ""),
    ("^'.*' is not one of ", "must be one of "),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
)
"""Patterns in the messages of typer, and the words of this project."""

_HELP = """\
Usage: sfumato COMMAND [ARGUMENT ...]
       sfumato --help | --version

Commands (sfumato COMMAND --help says more):
{commands}

Exit status:
{statuses}"""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A module that a registered command needs but that is not installed; `extra` provides it."""

    module: str
    extra: str | None

    @property
    def fix(self) -> str:
        """The command that installs the module, or the module's name if no extra provides it."""
        if self.extra is None:
            return f"needs the module {self.module}"
        return f"pip install 'sfumato[{self.extra}]'"


def find_commands() -> dict[str, metadata.EntryPoint]:
    """Find the registered commands by name, in alphabetical order; nothing is imported."""
    found = metadata.entry_points(group=GROUP)
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


def load_command(entry: metadata.EntryPoint) -> Any:
    """Import a command.

    Returns
    -------
    typer.Typer or Missing
        The application, or the missing module if an import is not installed. Every other
        failure of the import is a defect and is raised as it is.
    """
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        return _to_missing(entry, error)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `sfumato` and return its exit status.

    Parameters
    ----------
    argv
        The arguments after the program's name; by default those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    # Everything after a command's name belongs to the command, --help included.
    if arguments and not arguments[0].startswith("-"):
        return _run_command(arguments[0], arguments[1:])
    if arguments == ["--version"]:
        return _print_version()
    is_asked = arguments in (["-h"], ["--help"])
    print(format_help(), file=sys.stdout if is_asked else sys.stderr)
    return 0 if is_asked else EXIT_REFUSED


def format_help() -> str:
    """Write the help text: a line for each command, and how to install missing ones."""
    available: list[tuple[str, str]] = []
    unavailable: list[tuple[str, str]] = []
    for name, entry in find_commands().items():
        said = read_summary(entry.module, entry.attr) if _has_extra(entry) else None
        if said is not None:
            available.append((name, said))
            continue
        command = load_command(entry)
        if isinstance(command, Missing):
            unavailable.append((name, command.fix))
        else:
            available.append((name, summarise(command)))
    width = max((len(name) for name, _ in available + unavailable), default=0)
    rows = _format_rows(available, width)
    if unavailable:
        rows += ["", "Not installed here:", *_format_rows(unavailable, width)]
    return _HELP.format(commands="\n".join(rows), statuses=EXIT_STATUSES)


def summarise(app: Any) -> str:
    """Return the first line of an application's help."""
    text = app.info.help
    if not isinstance(text, str):  # one command, which has the help
        text = inspect.getdoc(app.registered_commands[0].callback) or ""
    return text.partition("\n")[0]


def read_summary(module: str, name: str) -> str | None:
    """Read the first line of an application's help off its source; None where it is not found.

    To import all commands takes seconds.
    """
    package, *path = module.split(".")
    # A room is found without importing what is in it.
    spec = find_spec(".".join((package, *path[:1])))
    for place in (spec and spec.submodule_search_locations) or ():
        for file in (
            Path(place, *path[1:], "__init__.py"),
            Path(place, *path[1:]).with_suffix(".py"),
        ):
            if file.is_file():
                return _find_summary(ast.parse(file.read_text(encoding="utf-8")), name)
    return None


def _find_summary(module: ast.Module, name: str) -> str | None:
    """Find what the Typer application of this name says, or else its only command."""
    for node in module.body:
        match node:
            case ast.ImportFrom(module=str(source), names=names) if name in {
                each.asname or each.name for each in names
            }:
                return read_summary(source, name)
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(keywords=given)):
                for each in given if found == name else ():
                    if each.arg == "help" and isinstance(each.value, ast.Constant):
                        return str(each.value.value).partition("\n")[0]
            case ast.FunctionDef(decorator_list=[ast.Call(func=made, args=args), *_]):
                owners = [made.value] if isinstance(made, ast.Attribute) else args[:1]
                if any(isinstance(each, ast.Name) and each.id == name for each in owners):
                    return (ast.get_docstring(node) or "").partition("\n")[0]
    return None


def _has_extra(entry: metadata.EntryPoint) -> bool:
    """Return whether everything is installed that the extra of a command's room asks for."""
    room = entry.module.split(".")[1:2]
    asked = entry.dist.requires if entry.dist else None
    for line in asked or ():
        name, marker = re.split(r"[^\w.-]", line, maxsplit=1)[0], line.partition(";")[2]
        if room and re.search(f"extra == ['\"]{room[0]}['\"]", marker):
            try:
                metadata.distribution(name)
            except metadata.PackageNotFoundError:
                return False
    return True


def list_examples(*lines: str) -> str:
    """Return the epilog of a command: its examples, a line each."""
    # \\b keeps the lines of a paragraph apart.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


def _print_version() -> int:
    # NumPy comes with it, which no other option needs.
    from sfumato.shared.core.engines import ENGINE_VARIABLE, choose_engine, describe_engine  # noqa: PLC0415

    print(f"sfumato {metadata.version('sfumato')}")
    try:
        engine = choose_engine(os.environ.get(ENGINE_VARIABLE))
    except SketchError as error:
        return _complain(str(error))
    print(f"engine: {describe_engine(engine)}")
    return 0


def _run_command(name: str, arguments: list[str]) -> int:
    entries = find_commands()
    if name not in entries:
        known = ", ".join(entries) or "none"
        return _complain(f"no command {name!r}; known commands: {known}")
    # Read when NumPy is loaded. Threads that share out small matrices only slow a command down.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    command = load_command(entries[name])
    if isinstance(command, Missing):
        return _complain(f"the command {name!r} is not installed here: {command.fix}")
    return _run_app(command, f"sfumato {name}", arguments)


def _run_app(app: Any, name: str, arguments: list[str]) -> int:
    for command in app.registered_commands:
        if not issubclass(command.cls, _NamesOptions):
            command.cls = type(command.cls.__name__, (_NamesOptions, command.cls), {})
    try:
        return int(app(args=arguments, prog_name=name, standalone_mode=False) or 0)
    except SketchError as error:
        is_passing = isinstance(error, TransportError | DiskError)
        return _complain(str(error), EXIT_FAILED if is_passing else EXIT_REFUSED)
    except Exception as error:
        match type(error).__name__:
            case "Abort":
                return _complain("stopped", EXIT_STOPPED)
            case "NoArgsIsHelpError":  # the message is the help text
                print(error, file=sys.stderr)
                return EXIT_REFUSED
        # The base of all wrong command lines has no public name in typer.
        if not hasattr(error, "format_message"):
            raise
        return _complain(str(_to_config_error(error, name)))


class _NamesOptions:
    """Mixin for a command of typer: an error names the option that was typed, not its field."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        for option in ctx.command.params:
            option.process_value = partial(_process_plain, option, option.process_value)
        return super().parse_args(ctx, args)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)  # type: ignore[misc]
        except SketchError as error:
            for option in ctx.command.params:
                source = ctx.get_parameter_source(option.name)
                if option.name == error.field and source and source.name == "COMMANDLINE":
                    error.field = max(option.opts, key=len)
            raise


def _process_plain(option: Any, process: Callable[[Any, Any], Any], ctx: Any, given: Any) -> Any:
    """Convert the text of an option, and refuse numbers that only Python would read."""
    found = process(ctx, given)
    for text, value in zip(*map(_list_parts, (given, found)), strict=False):
        if isinstance(text, str) and isinstance(value, int | float):
            try:
                require_plain(text)
            except ValueError as error:
                name = max(option.opts, key=len)
                raise ConfigError(str(error), field=name, fix="write it as 1000 or 0.5") from error
    return found


def _list_parts(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _to_config_error(error: Any, name: str) -> ConfigError:
    """Convert a fault of a command line to an error in the words of the rest of the project."""
    field, parameter = getattr(error, "option_name", None), getattr(error, "param", None)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else name
    fix = f"run `{command} --help`"
    message = str(getattr(error, "message", "")).rstrip(".?")
    for pattern, words in _TYPERS_WORDS:
        message = re.sub(pattern, words, message)
    if parameter is not None:
        is_option = parameter.param_type_name == "option"
        field = max(parameter.opts, key=len) if is_option else parameter.metavar or parameter.name
        if is_option and parameter.envvar and not message:
            fix = f"pass it, or set {parameter.envvar}"
    if message.startswith("No such option"):
        message = f"is not an option of `{command}`"
    return ConfigError(message or "is missing", field=field, fix=fix)


def _complain(message: str, status: int = EXIT_REFUSED) -> int:
    print(f"sfumato: error: {message}", file=sys.stderr)
    return status


def _to_missing(entry: metadata.EntryPoint, error: ModuleNotFoundError) -> Missing:
    """Find the extra that provides a module which a command misses.

    An extra is named after the room whose imports it provides, so that this module need not
    know the rooms above it. No extra provides a module of the package itself.
    """
    module = error.name or str(error)
    package, *rooms = entry.module.split(".")
    offered = (entry.dist.metadata.get_all("Provides-Extra") if entry.dist else None) or ()
    is_own = module.partition(".")[0] == package
    named = [name for name in (package, *rooms) if name in offered and not is_own]
    return Missing(module=module, extra=named[0] if named else None)


def _format_rows(rows: list[tuple[str, str]], width: int) -> list[str]:
    if not rows:
        return ["  none"]
    return [f"  {name:<{width}}  {text}".rstrip() for name, text in rows]
