"""The page of settings: the server, the agent, and a plan as a person writes it.

Names, defaults and meanings come from the declarations; a key without a meaning is an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, fields
from fractions import Fraction
from typing import Any, get_args, get_type_hints

from docs.generator.markdown import (
    join_parts,
    read_parameters,
    read_summary,
    to_markdown,
    write_table,
)
from sfumato.aggregator.settings import Settings
from sfumato.device_agent.settings.agent_settings import (
    ENVIRONMENT_PREFIX,
    OVERRIDABLE,
    Settings as AgentSettings,
)
from sfumato.device_agent.settings.relay_settings import RelaySettings
from sfumato.device_agent.sources.settings import (
    KINDS,
    Column,
    SourceSettings,
    StreamSettings,
    find_source,
)
from sfumato.shared.core import RadiusLaw
from sfumato.shared.plan import Dimension, Label, WindowRule
from sfumato.shared.plan.spec import PlanSpec

_SCALARS = ("state_dir", "server", "study", "labels")
_OF_RELAY = ("spool", "http", "mqtt")
_SHARED = ("log", "tls")
_TABLES = ("budget", "policy", "check", "outbox", "log", "metrics", "tls")


def render_settings() -> str:
    """Return the page."""
    return join_parts(
        [
            "# Settings",
            "There are three kinds. Everything that privacy depends on is in the *plan*, which is "
            "hashed into every sketch. The owner of a device limits its budget in the agent's "
            "*configuration*. The *settings of a server* are operational: they change no result "
            "and no guarantee.",
            *_render_server(),
            *_render_agent(),
            *_render_relay(),
            *_render_plan(),
        ]
    )


# ---- the server ----


def _render_server() -> list[str]:
    meanings = read_parameters(Settings)
    rows = [
        (
            f"`{name}`",
            "" if field.default is None else f"`{json.dumps(field.default)}`",
            meanings[name],
        )
        for name, field in Settings.model_fields.items()
    ]
    return [
        "## Server",
        "`sfumato serve` and `sfumato worker` read settings from options, from variables, and from "
        "the TOML file that `--config` names. Options override variables, and variables override "
        "the file. The variable of a setting is `SFUMATO_` and its name in capitals: "
        "`SFUMATO_PORT=9000` is the same as `port = 9000`.",
        write_table(("setting", "default", "meaning"), _join_rows(rows)),
    ]


# ---- the agent ----


def _render_agent() -> list[str]:
    variables = ", ".join(f"`{ENVIRONMENT_PREFIX}{key.upper()}`" for key in OVERRIDABLE)
    hints = get_type_hints(AgentSettings)
    parts = [
        "## Agent",
        "One TOML file, `agent.toml`, configures a study on a device. "
        "`sfumato-agent init --print-config` prints one with comments. Paths are relative to the "
        f"file. {variables} override the file, and `SFUMATO_ENGINE` selects the engine that "
        "computes sketches.",
        _write_keys(AgentSettings, _SCALARS),
    ]
    for name in _TABLES:
        parts += [f"### `[{name}]`", read_summary(hints[name]), _write_keys(hints[name])]
    parts += [
        "### `[[streams]]`",
        _write_keys(StreamSettings),
        "### `[streams.columns]`",
        read_summary(Column),
        _write_keys(Column),
        "### `[streams.source]`",
        "Every kind of source has these keys. [Sources of records](../how-to/sources.md) lists the "
        "guarantees of each kind.",
        _write_keys(SourceSettings),
    ]
    by_class: dict[type, list[str]] = {}
    for kind in KINDS:
        by_class.setdefault(find_source(kind).settings, []).append(f'`kind = "{kind}"`')
    common = [field.name for field in fields(SourceSettings)]
    for declared, kinds in by_class.items():
        own = [field.name for field in fields(declared) if field.name not in common]
        parts += [f"#### {' or '.join(kinds)}", read_summary(declared), _write_keys(declared, own)]
    return parts


def _render_relay() -> list[str]:
    hints = get_type_hints(RelaySettings)
    scalars = [f.name for f in fields(RelaySettings) if f.name not in (*_OF_RELAY, *_SHARED)]
    parts = [
        "## Relay",
        "One TOML file, `relay.toml`, configures [a relay](../how-to/relay.md); it has at least "
        "one of the three tables below. `[log]` and `[tls]` are those of the agent.",
        _write_keys(RelaySettings, scalars),
    ]
    for name in _OF_RELAY:
        (declared,) = (kind for kind in get_args(hints[name]) if kind is not type(None))
        parts += [f"### `[{name}]` of a relay", read_summary(declared), _write_keys(declared)]
    return parts


def _write_keys(kind: type, names: Sequence[str] | None = None) -> str:
    """Return the table of some keys of a declared table; all by default."""
    hints, documented = get_type_hints(kind), read_parameters(kind)
    rows = []
    # Needed keys first.
    for field in sorted(fields(kind), key=lambda field: _show_default(field) != "needed"):
        if names is not None and field.name not in names:
            continue
        # The core declares nothing: its classes are described in their docstrings.
        text = to_markdown(field.metadata.get("description") or documented[field.name])
        options = [option for option in get_args(hints[field.name]) if isinstance(option, str)]
        if options and not all(f"`{option}`" in text for option in options):
            text += f" One of {', '.join(f'`{option}`' for option in options)}."
        rows.append((f"`{field.name}`", _show_default(field), text))
    return write_table(("key", "default", "meaning"), _join_rows(rows))


def _join_rows(rows: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Join the rows of keys that share a meaning."""
    joined: dict[str, list[tuple[str, str]]] = {}
    for name, default, meaning in rows:
        joined.setdefault(meaning, []).append((name, default))
    return [
        (
            ", ".join(name for name, _ in pairs),
            ", ".join(dict.fromkeys(default for _, default in pairs if default)),
            meaning,
        )
        for meaning, pairs in joined.items()
    ]


# ---- the plan ----


def _render_plan() -> list[str]:
    parts = [
        "## Plan",
        "A person writes a plan in TOML or JSON. `sfumato plan new` prompts for the choices and "
        "writes it, `sfumato plan show` explains it, and `sfumato study create` publishes it. "
        "Digests, sensitivities, the noise scale and widths are derived from it.",
        _write_keys(PlanSpec),
    ]
    for title, kind in (
        ("dimensions", Dimension),
        ("window", WindowRule),
        ("radius_law", RadiusLaw),
        ("labels", Label),
    ):
        shown = f"[[{title}]]" if title in ("dimensions", "labels") else f"[{title}]"
        parts += [f"### `{shown}`", _write_keys(kind)]
    return parts


def _show_default(field: Any) -> str:
    if field.default is MISSING:
        if field.default_factory is MISSING:
            return "needed"
        return "" if field.default_factory is dict else "below"
    if field.default in (None, (), ""):
        return ""
    value = str(field.default) if isinstance(field.default, Fraction) else field.default
    return f"`{json.dumps(value)}`"
