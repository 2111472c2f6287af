"""The cluster of each record, found on this device by the stored published result.

Nothing is asked of the network, nothing is stored, and no budget is spent: what is found stays with
whoever reads it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from sfumato.device_agent.agent.dry_run import without_lock
from sfumato.device_agent.agent.trusted import TrustedResult, load_trusted
from sfumato.device_agent.settings.agent_settings import Settings
from sfumato.device_agent.sources import ReadingReport, open_source
from sfumato.device_agent.sources.mapping import RecordMapping
from sfumato.device_agent.sources.settings import SourceSettings, StreamSettings, TextSettings
from sfumato.device_agent.sources.stdin_source import StdinSettings
from sfumato.device_agent.store.database import check_folder, open_database
from sfumato.device_agent.store.identity import require_identity
from sfumato.shared.arrays import Bools, Floats, Integers
from sfumato.shared.errors import ConfigError, NotFoundError
from sfumato.shared.plan import SketchPlan, decode_plan
from sfumato.shared.reading import Block, FileLayout, LineCutter, naming
from sfumato.shared.reading.text_files import PACKED, make_lines
from sfumato.shared.wire import PublishedResult

_CHUNK_BYTES = 1 << 16
_FAR_DEVIATIONS = 3.090
"""One in a thousand draws of a normal variable lies above so many standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The clusters of some records.

    Parameters
    ----------
    clusters
        Shape ``(n,)``, from 1, the heaviest cluster first; 0 for a record that cannot be used.
    distances
        Shape ``(n,)``: Euclidean distance from the centroid on the plan's axes, in units of the
        plan's scales, of a grid in half widths of its axes; NaN for a record that cannot be used.
    are_far
        Shape ``(n,)``; None where the result has no spreads. True where 999 in 1000 records of a
        Gaussian cluster of these spreads would be nearer.
    are_outside
        Shape ``(n,)``: whether a value lies out of the plan's bounds, where it was clipped to.
    """

    clusters: Integers
    distances: Floats
    are_far: Bools | None
    are_outside: Bools

    def describe(self, i: int) -> str:
        """Return the doubts about a record's cluster; empty if there is none."""
        if not self.clusters[i]:
            return "unreadable"
        doubts = ["out of bounds"] if self.are_outside[i] else []
        doubts += ["far"] if self.are_far is not None and self.are_far[i] else []
        return ", ".join(doubts)


class Labeller:
    """Finds the nearest centroid of records, on the plan's axes in units of the plan's scales.

    These are the units in which the decoder finds the centroids.
    """

    def __init__(self, plan: SketchPlan, result: PublishedResult) -> None:
        self._plan = plan
        self._scale = _find_units(plan)
        self._centroids = plan.space.encoder.encode_answers(np.array(result.centroids))
        self._spreads: Floats | None = None
        if result.spreads is not None:
            # A spread of zero is below what a quantised value can show.
            step = np.array([(axis.upper - axis.lower) for axis in plan.axes]) / 65534.0
            self._spreads = np.maximum(np.array(result.spreads), step)

    def find(self, values: Floats) -> Labels:
        """Return the clusters of records.

        Parameters
        ----------
        values
            Shape ``(n, d)``, in the order of the plan's dimensions; NaN where a value is missing.
        """
        points = self._plan.space.place(values)
        is_usable = np.asarray(np.isfinite(points).all(axis=1))
        points = np.where(is_usable[:, None], points, 0.0)
        differences = (points[:, None, :] - self._centroids) / self._scale
        distances = np.sqrt(np.sum(differences**2, axis=2))
        nearest = distances.argmin(axis=1)
        rows = np.arange(len(points))
        far = None
        if self._spreads is not None:
            apart = (points - self._centroids[nearest]) / self._spreads[nearest]
            limit = find_far_limit(points.shape[1])
            far = np.logical_and(is_usable, np.sum(apart**2, axis=1) > limit)
        with np.errstate(invalid="ignore"):
            below, above = values < self._plan.space.lower, values > self._plan.space.upper
        return Labels(
            clusters=np.where(is_usable, nearest + 1, 0),
            distances=np.where(is_usable, distances[rows, nearest], np.nan),
            are_far=far,
            are_outside=np.asarray(np.logical_or(below, above).any(axis=1)),
        )


def _find_units(plan: SketchPlan) -> Floats:
    """Return the units of distances, as the decoder has them: a grid states no scale."""
    if plan.kind != "grid":
        return plan.scale
    return np.array([(axis.upper - axis.lower) / 2.0 for axis in plan.axes])


def find_far_limit(n_axes: int) -> float:
    """Return the 99.9 % point of a chi-squared variable, by Wilson and Hilferty's cube root."""
    part = 2.0 / (9.0 * n_axes)
    return float(n_axes * (1.0 - part + _FAR_DEVIATIONS * part**0.5) ** 3)


@dataclass(frozen=True, kw_only=True)
class LabelTask:
    """A plan, a stored result, and what finds clusters by them."""

    settings: Settings
    plan: SketchPlan
    trusted: TrustedResult
    labeller: Labeller

    def find_stream(self, name: str | None) -> StreamSettings:
        """Return the configured stream of a name; the only one without a name.

        Raises
        ------
        ConfigError
            There is none, or more than one.
        """
        streams = self.settings.streams
        found = [stream for stream in streams if name in (None, stream.name)]
        if len(found) == 1:
            return found[0]
        raise ConfigError(
            "must be the name of a stream",
            field="--stream",
            fix=f"use one of: {', '.join(stream.name for stream in streams)}",
        )


@contextmanager
def open_labels(settings: Settings) -> Iterator[LabelTask]:
    """Open the stored result of an enrolled device.

    Raises
    ------
    NotFoundError
        No result was pulled.
    SignatureError, PlanMismatchError
        The stored one is damaged, or of another study or plan.
    """
    check_folder(settings.state_dir, create=False)
    with closing(open_database(settings.state_dir, settings.study)) as connection:
        identity = require_identity(connection, settings.state_dir)
    trusted = load_trusted(settings, identity)
    if trusted is None:
        raise NotFoundError(
            "is not on this device", field="published result", fix="run `sfumato-agent pull`"
        )
    plan = decode_plan(identity.plan_bytes)
    yield LabelTask(
        settings=settings, plan=plan, trusted=trusted, labeller=Labeller(plan, trusted.result)
    )


def label_csv(
    task: LabelTask, stream: StreamSettings, path: Path | None
) -> Iterator[tuple[Sequence[bytes], Labels | None]]:
    """Yield the lines of a CSV file with their labels, as they come; first the header without.

    Parameters
    ----------
    stream
        Says how columns are named and converted; its times are not read.
    path
        The file; None for standard input.

    Raises
    ------
    RecordError
        It cannot be read, or lacks a column.
    """
    text = _find_text_settings(stream.source)
    mapping = RecordMapping(replace(stream, source=text), task.plan.dimensions)
    parser, report, name = mapping.make_parser(text), ReadingReport(), str(path or "standard input")
    encoding = stream.source.encoding if isinstance(stream.source, TextSettings) else text.encoding
    with naming(Path(name)), _open_input(path, encoding) as file:
        for block in _read_blocks(file):
            n_before = 0
            while parser.needs_header and n_before < block.n_lines:
                head = block.part(n_before, n_before + 1)
                parser.read_header(head.data, name)
                n_before += 1
                yield head.lines(), None
            if n_before == block.n_lines:
                continue
            rest = block.part(n_before, block.n_lines)
            values = mapping.parse(parser, rest, report).to_matrix()
            yield rest.lines(), task.labeller.find(values)


def follow_stream(
    task: LabelTask, stream: StreamSettings
) -> Iterator[tuple[Floats, Floats, Labels]]:
    """Yield times, values and labels of a stream's records from its beginning, until stopped.

    The agent's own place in the source stays, and no file is locked.

    Raises
    ------
    ConfigError
        Reading would take records from the source, which the sketch would then miss.
    RecordError
        The source cannot be read.
    """
    # Positions are of no use here, so the key of their digests is anybody's.
    source = open_source(without_lock(stream), task.plan.dimensions, (), secrets.token_bytes(32))
    with closing(source):
        if source.guarantee.consumes:
            raise ConfigError(
                "cannot be followed: reading takes its records away, and the agent would miss them",
                field="--follow",
                fix="pipe a copy of them into `sfumato-agent cluster --csv -`",
            )
        while not source.ended:
            batch = source.read_batch()
            if batch is None:
                time.sleep(source.pause_s)
                continue
            yield batch.timestamps, batch.values, task.labeller.find(batch.values)


_WRITTEN = (
    *("delimiter", "header", "skip_lines", "comment"),
    *("decimal", "thousands", "strip", "missing_values"),
)
"""Settings of how lines are written."""


def _find_text_settings(source: SourceSettings) -> StdinSettings:
    if not isinstance(source, TextSettings) or source.format != "csv":
        return StdinSettings(kind="stdin")
    return StdinSettings(
        kind="stdin",
        encoding=source.line_encoding,
        **{name: getattr(source, name) for name in _WRITTEN},
    )


@contextmanager
def _open_input(path: Path | None, encoding: str) -> Iterator[IO[bytes]]:
    if path is None:
        with os.fdopen(os.dup(0), "rb", buffering=0) as file:
            yield file
        return
    layout = FileLayout(encoding=encoding, packed=PACKED.get(path.suffix))
    with path.open("rb", buffering=0) as file, make_lines(file, layout, path) as lines:
        yield lines


def _read_blocks(file: IO[bytes]) -> Iterator[Block]:
    cutter = LineCutter()
    while chunk := file.read(_CHUNK_BYTES):
        if (block := cutter.feed(chunk)) is not None:
            yield block
    if (block := cutter.finish()) is not None:
        yield block
