"""The configuration that ``init --print-config`` prints; a test loads it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.device_agent.agent.guess import Guess

SAMPLE = """\
# Configuration of sfumato-agent. Lines that begin with # are examples or defaults.
state_dir = "state"                       # key, ledger and outbox; relative to this file
# Who asks, from the study's operator. `init --code` writes both here if they are not:
# server = "https://sketches.example.org"
# study = "64 hexadecimal digits"
# name = "hall"                           # shown to all who read the study; no secret, may change
# labels = { region = "north" }           # if the study declares labels; fixed when enrolled

[budget]                                  # the most you allow
per_record = "1"                          # epsilon, exact and in quotes; "1" if not written
# ledger = "/var/lib/sfumato/owner.ledger" # outside state_dir; counts what you release
# lifetime = "30"                         # for someone who is in every window; without it, no limit
# delta = "1/1000000"                     # at which limits are judged; this if not written

[policy]                                  # a plan outside it is refused
epsilon_per_window = "1"
# mechanisms = ["discrete-knorm", "discrete-laplace", "discrete-gaussian"]
# neighbouring = ["replace-one", "add-remove-one"]
# plan_digests = ["64 hexadecimal digits"]    # `sfumato-agent check` shows the plan's
# servers = ["https://sketches.example.org"]

# [check]                                 # of the records, before a stream joins
# records = 10000                         # the most that are looked at
# unreadable_times = 0.1                  # shares: more keep the stream from joining, and so does
# times_outside = 0.1                     # a time before the study or in the future,
# unreadable_values = 0.1                 # a value that is no number,
# clipped = 0.1                           # or one outside the plan's bounds

# [outbox]
# most_megabytes = 256                    # then no window is closed until some were sent

# [log]                                   # of `run`, on standard error
# level = "info"                          # or debug, warning, error
# value_counts = true                     # how many records could not be sketched, or lie out of
#                                         # bounds: exact, without noise. A log may be sent on, so
#                                         # without it only a terminal shows them

# [tls]                                   # whom to believe instead of the system's authorities
# ca_file = "ca.pem"
# certificate = "device.crt"              # where the server asks for one
# key = "device.crt.key"

# [metrics]                               # of `run`, for Prometheus's text collector
# path = "/var/lib/node_exporter/textfile/sfumato.prom"
# value_counts = true                     # the same counts, for whoever collects the metrics

[[streams]]
name = "meter"
[streams.source]
kind = "csv"                              # or jsonl, folder, stdin, sqlite, mqtt, http, parquet
path = "records.csv"
# timestamp = "time"                      # the column with each record's time, for windows by time
# timestamp_format = "iso8601"            # or unix, unix_ms, "%d.%m.%Y %H:%M"
# delimiter = ";"                         # and decimal = ",", strip = ["°C"], skip_lines = 2,
#                                         # missing_values = ["-999"]: as the file is written
# where = { sensor = "kitchen" }          # only records whose field, which is public, has this text
# missing = "wait"                        # until the file is there
# join = { key = "topic", every_s = 300, since = "2026-12-01T00:00:00Z" }   # messages of one value
# replaced = "join_successors"            # where files are rotated by renaming
# [streams.columns]                       # dimension = column, where the names differ
# temperature = { field = "temp", convert = "degF -> degC" }
"""

_COLUMNS = "# [streams.columns]"


def fill_sample(
    texts: Mapping[str, str | None], *, labels: Mapping[str, str], columns: Mapping[str, str]
) -> str:
    """Return the sample with settings in place of its examples.

    Parameters
    ----------
    texts
        Known values of ``server``, ``study``, ``path`` (a CSV file) and ``timestamp``.
    labels
        The device's labels.
    columns
        By dimension, the column whose name differs.
    """
    values = {key: quote(text) for key, text in texts.items() if text is not None}
    if labels:
        values["labels"] = "{ " + ", ".join(_make_lines(labels)) + " }"
    sample = SAMPLE
    for key, value in values.items():
        # Another path is an example too, of the metrics.
        example = rf"^{'' if key == 'path' else '# '}{key} = .*$"
        before, _, after = re.split(rf"({example})", sample, maxsplit=1, flags=re.MULTILINE)
        sample = f"{before}{key} = {value}{after}"
    if columns:
        lines = [_COLUMNS.removeprefix("# "), *_make_lines(columns), ""]
        sample = sample[: sample.index(_COLUMNS)] + "\n".join(lines)
    return sample


def show_guess(found: Guess, texts: Mapping[str, str]) -> str:
    """Return a configuration that reads a file, with doubts and the first records as comments.

    Parameters
    ----------
    texts
        Known values of ``server`` and ``study``.
    """
    head = fill_sample(dict(texts), labels={}, columns={})
    head = head[: head.index("[[streams]]")]
    lines = ["[[streams]]", 'name = "main"', "[streams.source]"]
    tables = {key: value for key, value in found.source.items() if isinstance(value, dict)}
    plain = {key: value for key, value in found.source.items() if key not in tables}
    lines += [f"{key} = {_write(value)}" for key, value in plain.items()]
    for name, table in tables.items():
        lines += [f"[streams.source.{name}]"]
        lines += [f"{key} = {_write(value)}" for key, value in table.items()]
    if found.columns:
        lines += ["[streams.columns]                         # dimension of the plan = column"]
        lines += _make_lines(found.columns)
    lines += ["", "# This is a guess. Nothing was stored, sent or spent. What is doubtful:"]
    lines += [f"# - {doubt}" for doubt in found.doubts] or ["# - nothing that could be seen"]
    if found.rows:
        rows = [("time (UTC)", *found.columns), *found.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines += ["#", "# The first records as they will be read:"]
        lines += [
            "#   " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
    return head + "\n".join(lines) + "\n"


def _write(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(quote, value))}]"
    return quote(value) if isinstance(value, str) else str(value)


def quote(text: str) -> str:
    """Return a text as TOML writes it."""
    # What JSON leaves as it is, TOML does too, but for one control character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _make_lines(values: Mapping[str, str]) -> list[str]:
    return [f"{quote(name)} = {quote(value)}" for name, value in values.items()]
