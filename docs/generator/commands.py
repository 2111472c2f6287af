"""The page of commands, from the parsers of ``sfumato`` and ``sfumato-agent``."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from typer.main import get_command

from docs.generator.markdown import join_parts, to_markdown, write_table
from sfumato.device_agent.cli.arguments import create_parser
from sfumato.shared.command import EXIT_STATUSES, summarise

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_KINDS: Mapping[Any, str] = {int: "NUMBER", float: "NUMBER", Path: "FILE"}


def render_commands() -> str:
    """Return the page."""
    commands = _find_commands()
    agent = create_parser()
    parts = [
        "# Commands",
        "There are two programs: `sfumato` for servers, operators and analysts, and "
        "`sfumato-agent` for devices. `--help` after any command prints the text of this page. "
        "`--version` prints the version, and the engine that computes sketches.",
        "Commands that call a server take its address from `--url` or `SFUMATO_URL`, and the "
        "key from `--key` or `SFUMATO_KEY`. With `--json` a command prints one JSON document and "
        "nothing else on standard output. Errors name the option or field, the rule and the fix, "
        "on standard error.",
        write_table(
            ("command", "meaning"),
            [
                *(
                    (_link(f"sfumato {name}"), summarise(command))
                    for name, command in commands.items()
                ),
                (_link("sfumato-agent"), to_markdown(agent.description or "")),
            ],
        ),
    ]
    for name, command in commands.items():
        parts.append(f"## `sfumato {name}`")
        parts += _render_typer(f"sfumato {name}", get_command(command), heading=f"sfumato {name}")
    parts += ["## Exit status of `sfumato`", f"```\n{_dedent(EXIT_STATUSES)}\n```"]
    parts += ["## `sfumato-agent`", *_render_argparse(agent)]
    return join_parts(parts)


def _find_commands() -> dict[str, Any]:
    """Return the commands of this project, in the order of its project file."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    found = {}
    for name, place in project["entry-points"]["sfumato.commands"].items():
        module, _, function = place.partition(":")
        found[name] = getattr(import_module(module), function)
    return found


def _link(command: str) -> str:
    return f"[`{command}`](#{command.replace(' ', '-')})"


# ---- argparse ----


def _render_argparse(parser: argparse.ArgumentParser) -> list[str]:
    inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    parts = [
        to_markdown(parser.description or ""),
        _usage([parser.prog, "COMMAND"]) if inner else _usage(_argparse_usage(parser)),
        write_table(("option", "meaning"), _argparse_rows(parser)),
        _render_epilog(parser.epilog or ""),
    ]
    for action in inner:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, child in action.choices.items():
            parts += [
                f"### `{child.prog}`",
                "" if child.description else f"{_sentence(helps[name])}",
            ]
            parts += _render_argparse(child)
    return parts


def _argparse_usage(parser: argparse.ArgumentParser) -> list[str]:
    words = [parser.prog]
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
            continue
        name = _longest(action.option_strings)
        value = "" if action.nargs == 0 else _metavar(action)
        word = f"{name} {value}".strip()
        words.append(word if action.required else f"[{word}]")
    return words


def _argparse_rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        value = "" if action.nargs == 0 else f"`{_metavar(action)}`"
        help_text = to_markdown((action.help or "").replace("%%", "%"))
        notes = ["needed" if action.required and action.option_strings else ""]
        yield f"{names} {value}".strip(), _join_notes(help_text, notes)


def _metavar(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.dest.upper()


def _render_epilog(text: str) -> str:
    """Return the text after the options, with its indented lines as blocks."""
    blocks: list[str] = []
    for block in re.split(r"\n\n+", text.strip("\n")):
        title, _, lines = block.partition("\n")
        if lines and all(line.startswith("  ") for line in lines.splitlines()):
            body = _dedent(lines)
            blocks += [_sentence(title, end=""), f"```\n{body}\n```"]
        elif block.startswith("  "):
            body = _dedent(block)
            blocks.append(f"```\n{body}\n```")
        else:
            blocks.append(to_markdown(block))
    return "\n\n".join(blocks)


# ---- typer ----


def _render_typer(prefix: str, command: Any, *, heading: str) -> list[str]:
    if children := getattr(command, "commands", None):
        parts = [to_markdown(command.help or "")]
        for name, child in children.items():
            inner = prefix if child.hidden else f"{prefix} {name}"
            parts += _render_typer(inner, child, heading=heading)
        return parts
    parts = [] if prefix == heading else [f"### `{prefix}`"]
    parts += [to_markdown(command.help or ""), _usage(_typer_usage(prefix, command))]
    parts.append(write_table(("option", "meaning"), map(_typer_row, command.params)))
    parts.append(_render_epilog((command.epilog or "").replace("\b\n", "")))
    return parts


def _typer_usage(prefix: str, command: Any) -> list[str]:
    words = [prefix]
    for parameter in command.params:
        value = "" if getattr(parameter, "is_flag", False) else _typer_metavar(parameter)
        if parameter.param_type_name == "option":
            word = f"{_longest(parameter.opts)} {value}".strip()
        else:
            word = value
        words.append(word if parameter.required else f"[{_unwrap(word)}]")
    return words


def _typer_row(parameter: Any) -> tuple[str, str]:
    is_option = parameter.param_type_name == "option"
    value = "" if getattr(parameter, "is_flag", False) else f"`{_typer_metavar(parameter)}`"
    names = ", ".join(f"`{name}`" for name in parameter.opts) if is_option else ""
    notes = ["needed" if parameter.required and is_option else ""]
    if parameter.default not in (None, False) and not callable(parameter.default):
        notes.append(f"`{parameter.default}` if left out")
    if variable := parameter.envvar:
        notes.append(f"or `{variable}`")
    return f"{names} {value}".strip(), _join_notes(to_markdown(parameter.help or ""), notes)


def _unwrap(text: str) -> str:
    """Remove brackets around the whole text: those inside belong to a value."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def _typer_metavar(parameter: Any) -> str:
    given = _unwrap(str(parameter.metavar or ""))
    if given:
        return given
    if parameter.param_type_name == "option":
        kind = parameter.type_descriptor.annotation
        if get_origin(kind) is Literal:
            return "{" + ",".join(get_args(kind)) + "}"
        return _KINDS.get(kind, "TEXT")
    return str(parameter.name).upper()


# ---- both ----


def _usage(words: list[str]) -> str:
    """Return a usage line, wrapped at the width of a screen."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) > 96:
            lines.append("   ")
        lines[-1] += f" {word}"
    return "```\n" + "\n".join(lines) + "\n```"


def _dedent(text: str) -> str:
    return "\n".join(line[2:] for line in text.splitlines())


def _longest(names: Sequence[str]) -> str:
    return max(names, key=len) if names else ""


def _sentence(text: str, end: str = ".") -> str:
    return f"{text[:1].upper()}{text[1:]}{end}" if text else ""


def _join_notes(text: str, notes: list[str]) -> str:
    said = "; ".join(note for note in notes if note)
    return f"{text.rstrip('.')} ({said})" if text and said else text or said
