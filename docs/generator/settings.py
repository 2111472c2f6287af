"""The page of settings: the server, the agent, and a plan as a person writes it.

Names and defaults come from the code. The strict readers of the agent's configuration name the keys
that they know when they refuse one: a key without a meaning here, or a meaning without a key, stops
the generator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args, get_type_hints

from aggregator.settings import Settings
from device_agent.settings.agent_settings import ENVIRONMENT_PREFIX, OVERRIDABLE
from device_agent.settings.owner_tables import read_housekeeping, read_limits
from device_agent.settings.source_tables import KINDS, read_source
from device_agent.settings.toml_table import Table
from docs.generator.markdown import join_parts, read_parameters, to_markdown, write_table
from shared.core import RadiusLaw
from shared.errors import ConfigError
from shared.plan import Dimension, SketchPlan, WindowRule
from shared.plan.parts import Label
from shared.plan.spec import PlanSpec
from shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON

_UNKNOWN = "no such key"
_ROOT = Path("/")

_OWNER: Mapping[str, Mapping[str, str]] = {
    "budget": {
        "per_record": "The largest epsilon that a record may lose over all plans on its source; "
        f'exact and in quotes. Default: `policy.epsilon_per_window`, or `"{DEFAULT_EPSILON}"`.',
        "lifetime": "The largest epsilon for a person who is in every window. Default: no limit.",
        "delta": "The delta at which both limits are evaluated, if the noise of a plan has one. "
        f'Default: `"{DEFAULT_DELTA}"`.',
        "ledger": "A file through which agents with separate states share the budget.",
    },
    "policy": {
        "epsilon_per_window": "The largest epsilon of a plan.",
        "mechanisms": "The mechanisms that a plan may use. Default: all.",
        "neighbouring": "`replace-one`, `add-remove-one`, or both. Default: both.",
        "plan_digests": "The digests of the allowed plans. Default: all.",
        "servers": "The addresses of the allowed servers. Default: all.",
    },
    "outbox": {
        "most_megabytes": "The size of waiting sketches from which on no window is closed until "
        "some were sent. Default: 256."
    },
    "log": {
        "level": "`info`, `debug`, `warning` or `error`. Default: `info`.",
        "value_counts": "`true`: log lines may count records that could not be sketched or were "
        "out of bounds. These counts are exact, without noise.",
    },
    "metrics": {
        "path": "A file for Prometheus's text collector. Default: none.",
        "value_counts": "`true`: metrics may contain the same counts.",
    },
    "tls": {
        "ca_file": "The trusted authorities of the server's certificate, in PEM. Default: those of "
        "the system.",
        "certificate": "The device's own certificate, if the server requires one.",
        "key": "Its private key, if the certificate's file does not contain it.",
    },
}
_COMMON: Mapping[str, str] = {
    "kind": f"{', '.join(f'`{kind}`' for kind in KINDS)}, or the kind of another package.",
    "disjoint": "A name for a part of the source. You declare that parts with different names "
    "share no record.",
    "timestamp": "The field with a record's time.",
    "timestamp_format": "`iso8601` (the default), `unix`, `unix_ms`, `unix_us`, `unix_ns`, or a "
    "format of `strptime`.",
    "timestamp_zone": "The IANA zone of times without an offset. Default: `UTC`.",
}
_SOURCE: Mapping[str, str] = {
    "path": "The file or folder, relative to the configuration.",
    "lock": "`false`: do not lock the source while it is read.",
    "missing": "`error` (the default), or `wait` until the file exists.",
    "replaced": "The meaning of another file at the path: `refuse` (the default), "
    "`join_successors` or, for a single file, `rewritten`.",
    "encoding": "An encoding that contains ASCII. Default: `utf-8`.",
    "delimiter": "The character between fields of CSV. Default: `,`.",
    "header": "The names of the columns, if there is no header line.",
    "format": "`csv` or `jsonl`; for messages, `json` or `csv`. Default: the first.",
    "glob": "A pattern of file names in the folder. Default: all.",
    "whole": "`true`: files appear complete, so a last line needs no end.",
    "released": "The treatment of a file once all of it was released: `keep` (the default), "
    "`delete` or `move`.",
    "move_to": "The folder for `move`.",
    "id": "A field with an increasing whole number.",
    "query": "A SELECT with `:last` and `:n`, ordered by the key.",
    "key": "A unique, increasing column.",
    "first": "The first value of `:last` (default: 0), or the first cursor.",
    "poll_s": "Seconds between polls. Default: 10 for SQLite, 60 for HTTP.",
    "url": "The address: `mqtt://` or `mqtts://`, `https://` or `http://`.",
    "topic": "The topic or topic filter.",
    "client_id": "The name of the session at the broker. Never share it.",
    "username": "The user at the broker.",
    "password_file": "A file with the password.",
    "ca_file": "The trusted authorities of the broker's certificate.",
    "parameter": "The query parameter with the cursor. Default: `cursor`.",
    "records": "The key of the records in the answer. Default: `records`.",
    "next": "The key of the next cursor in the answer. Default: `next`.",
    "token_file": "A file whose content is sent as a bearer token.",
    "timeout_s": "Seconds within which a whole page must arrive. Default: 30.",
}
_TOP: Mapping[str, str] = {
    "state_dir": "The folder of key, ledger and outbox. Studies in one folder share one ledger.",
    "server": "The address of the aggregator.",
    "study": "The study's id, 64 hexadecimal digits.",
    "labels": "A table of the device's labels, fixed at enrolment.",
}


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
    parts = [
        "## Agent",
        "One TOML file, `agent.toml`, configures a study on a device. "
        "`sfumato-agent init --print-config` prints one with comments. Paths are relative to the "
        f"file. {variables} override the file, and `SFUMATO_ENGINE` selects the engine that "
        "computes the sketch.",
        write_table(("key", "meaning"), ((f"`{key}`", text) for key, text in _TOP.items())),
    ]
    for name, meanings in _OWNER.items():
        _require_same(f"[{name}]", meanings, _known_keys(name))
        parts.append(f"### `[{name}]`")
        parts.append(write_table(("key", "meaning"), _rows(meanings)))
    parts += [
        "### `[[streams]]`",
        "A stream has a `name` and a `source`. `columns` maps dimensions to fields of another "
        'name: `dimension = "field"`, or a table with `field`, `convert` (such '
        'as `"degF -> degC"`), or `scale` and `offset`.',
        "### `[streams.source]`",
        "Every kind of source has these keys. [Sources of records](../how-to/sources.md) states "
        "the guarantee of each kind.",
        write_table(("key", "meaning"), _rows(_COMMON)),
    ]
    used: set[str] = set()
    for kind in KINDS:
        known = _known_source_keys(kind)
        used |= set(known)
        own = [key for key in known if key not in _COMMON]
        parts.append(f"**`{kind}`**: {', '.join(f'`{key}`' for key in own)}.")
    _require_same("[streams.source]", {**_COMMON, **_SOURCE}, tuple(used))
    parts.append(write_table(("key", "meaning"), _rows(_SOURCE)))
    return parts


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


def _rows(meanings: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{key}`", text) for key, text in meanings.items()]


def _known_keys(table: str) -> tuple[str, ...]:
    """Return the keys that the strict reader of one of the owner's tables accepts."""
    top = Table({table: {_UNKNOWN: 1}}, "", (table,))
    return _read_refusal(lambda: (read_limits(top), read_housekeeping(top, _ROOT)))


def _known_source_keys(kind: str) -> tuple[str, ...]:
    return _read_refusal(lambda: read_source({"kind": kind, _UNKNOWN: 1}, "streams.source", _ROOT))


def _read_refusal(read: Callable[[], object]) -> tuple[str, ...]:
    try:
        read()
    except ConfigError as error:
        return tuple((error.fix or "").removeprefix("use: ").split(", "))
    raise LookupError("an unknown key was not refused")


def _require_same(where: str, meanings: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse a page that explains other keys than the code reads."""
    if different := set(meanings) ^ set(known):
        raise LookupError(f"{where}: explain in docs/generator/settings.py: {sorted(different)}")


# ---- the plan ----


def _render_plan() -> list[str]:
    meanings = read_parameters(SketchPlan) | {
        "seed": "64 hexadecimal digits, or any other text, which is hashed with SHA-256.",
        "epsilon": "The epsilon of each sketch for each record; exact and in quotes.",
        "delta": "0, or the delta of Gaussian noise; exact and in quotes.",
        "mechanism": "The noise. Default: Gaussian if there is a delta, Laplace with masks, K-norm "
        "otherwise.",
        "least_records": "Fewer records than this are carried over into the next window. Default: "
        "1, and 0 under `add-remove-one`.",
        "most_records": "The window closes early at this number of records. Under `add-remove-one` "
        "it only sizes the payload: no device checks whether it is reached.",
        "measurements_per_record": "r, a divisor of m: the number of features that one record adds "
        "to. Default: m.",
        "most_sketches_per_device": "The share of one device, so that a lying device cannot lock "
        "the others out. Default: an eighth of `most_sketches`.",
        "neighbouring": "The relation: hide the values of a record, or also that it exists.",
        "window": "The division of a stream into windows; see below.",
        "radius_law": "The law of frequencies; see below.",
        "labels": "A list of `name` and `values`: declared attributes of devices.",
        "n_frequencies": "m, such as 5 k d for k clusters in d dimensions.",
    }
    parts = [
        "## Plan",
        "A person writes a plan in TOML or JSON. `sfumato plan new` prompts for the choices and "
        "writes it, `sfumato plan show` explains it, and `sfumato study create` publishes it. "
        "Digests, sensitivities, the noise scale and widths are derived from it.",
        write_table(("key", "default", "meaning"), _join_rows(_spec_rows(PlanSpec, meanings))),
    ]
    for title, kind in (
        ("dimensions", Dimension),
        ("window", WindowRule),
        ("radius_law", RadiusLaw),
        ("labels", Label),
    ):
        shown = f"[[{title}]]" if title in ("dimensions", "labels") else f"[{title}]"
        own = read_parameters(kind) or {
            "name": "The label's name.",
            "values": "The values that a device may choose from.",
        }
        parts.append(f"### `{shown}`")
        parts.append(write_table(("key", "default", "meaning"), _join_rows(_spec_rows(kind, own))))
    return parts


def _spec_rows(kind: type, meanings: Mapping[str, str]) -> list[tuple[str, str, str]]:
    hints = get_type_hints(kind)
    rows = []
    for field in fields(kind):
        text = to_markdown(meanings[field.name])
        options = [option for option in get_args(hints[field.name]) if isinstance(option, str)]
        if options and not all(f"`{option}`" in text for option in options):
            text += f" One of {', '.join(f'`{option}`' for option in options)}."
        rows.append((f"`{field.name}`", _show_default(field), text))
    return rows


def _show_default(field: Any) -> str:
    if field.default is MISSING:
        return "needed" if field.default_factory is MISSING else "below"
    if field.default is None or field.default == ():
        return ""
    value = str(field.default) if isinstance(field.default, Fraction) else field.default
    return f"`{json.dumps(value)}`"
