"""Results of analyses: comparisons, timelines, groups and the health of devices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sfumato.analyst.results.tables import make_frame
from sfumato.shared.errors import DecodingError
from sfumato.shared.wire import error_from_problem
from sfumato.shared.wire.objects.analyses import (
    AnalysisBody,
    AnswerBody,
    ComparisonBody,
    DevicesBody,
    GroupsBody,
    TimelineBody,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

B = TypeVar("B", bound=AnswerBody)
R = TypeVar("R", bound="AnalysisResult[Any]")


@dataclass(frozen=True, kw_only=True)
class AnalysisResult(Generic[B]):
    """The result of an analysis.

    Parameters
    ----------
    body
        The answer with all its figures, see :mod:`sfumato.shared.wire.objects.analyses`.
    analysis_id
        The analysis that gave it.
    """

    body: B
    analysis_id: str

    @property
    def words(self) -> tuple[str, ...]:
        """The answer in sentences, doubts first."""
        return tuple(self.body.words)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the probabilities."""
        return tuple(self.body.assumptions)

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the columns of :meth:`to_frame`, by name."""
        raise NotImplementedError

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the main table as a frame.

        Parameters
        ----------
        library
            ``pandas`` or ``polars``, which must be installed.

        Raises
        ------
        ConfigError
            The library is another, or not installed.
        """
        return make_frame(self.to_columns(), library)

    def plot(self, *, title: str | None = None) -> Figure:
        """Draw the answer with matplotlib.

        Parameters
        ----------
        title
            Above the figure; by default the answer in words.
        """
        # matplotlib takes a second to import; only pictures need it.
        from sfumato.analyst.analysis_plots import plot_analysis  # noqa: PLC0415

        return plot_analysis(self.body, title=title)

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return {"analysis_id": self.analysis_id, **asdict(self.body)}

    def __str__(self) -> str:
        return "\n".join([*self.words, *self.assumptions])

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{escape(sentence)}</li>" for sentence in self.words)
        assumed = "; ".join(escape(sentence) for sentence in self.assumptions)
        return f"<div><ul>{said}</ul><p>{assumed}</p></div>"


class Comparison(AnalysisResult[ComparisonBody]):
    """The difference of two selections; :meth:`to_frame` has a row for each change."""

    @property
    def is_alarm(self) -> bool:
        """Whether the difference is both certain and large enough to matter."""
        return self.body.is_alarm

    @property
    def size(self) -> float:
        """Equivalent common shift, in the plan's scales."""
        return self.body.size

    @property
    def p(self) -> float:
        """Probability of a difference like this where nothing has changed."""
        return self.body.p

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the columns of :meth:`to_frame`, by name."""
        names = ("cluster", "quantity", "dimension", "estimate", "error", "z", "p", "is_named")
        return {name: [getattr(change, name) for change in self.body.changes] for name in names}


class Timeline(AnalysisResult[TimelineBody]):
    """Windows in order; :meth:`to_frame` has a row for each cluster of each window."""

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the columns of :meth:`to_frame`, by name."""
        rows = [
            (window, number, cluster)
            for window in self.body.windows
            for number, cluster in enumerate(window.clusters or ())
        ]
        columns: dict[str, list[Any]] = {
            name: [getattr(window, name) for window, _, _ in rows]
            for name in (
                *("first_slot", "last_slot", "start", "end", "n_records", "snr"),
                *("p", "size", "is_alarm"),
            )
        }
        columns["cluster"] = [number for _, number, _ in rows]
        columns["weight"] = [cluster.weight for _, _, cluster in rows]
        columns["weight_error"] = [cluster.weight_error for _, _, cluster in rows]
        for i, dimension in enumerate(self.body.dimensions):
            columns[f"centre of {dimension.name}"] = [each.centre[i] for _, _, each in rows]
            columns[f"error of {dimension.name}"] = [
                each.centre_error and each.centre_error[i] for _, _, each in rows
            ]
        columns["verdict"] = [window.verdict and window.verdict.word for window, _, _ in rows]
        return columns


class Groups(AnalysisResult[GroupsBody]):
    """All pairs of groups; :meth:`to_frame` has a row for each."""

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the columns of :meth:`to_frame`, by name."""
        pairs, values = self.body.pairs, self.body.values
        return {
            "first": [values[pair.first] for pair in pairs],
            "second": [values[pair.second] for pair in pairs],
            "size": [pair.size for pair in pairs],
            "size_error": [pair.size_error for pair in pairs],
            "p": [pair.p for pair in pairs],
        }


class DeviceHealth(AnalysisResult[DevicesBody]):
    """The devices, the most unlike first; :meth:`to_frame` has a row for each."""

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the columns of :meth:`to_frame`, by name."""
        names = (
            *("device_id", "name", "n_sketches", "n_records", "share", "p_content", "p_silence"),
            *("z", "size", "size_error", "snr", "least_lie", "last_seen"),
        )
        columns: dict[str, list[Any]] = {
            name: [getattr(device, name) for device in self.body.devices] for name in names
        }
        for lamp in ("content", "silence", "unusual"):
            columns[lamp] = [getattr(device.lamps, lamp) for device in self.body.devices]
        for label in sorted({name for device in self.body.devices for name in device.labels}):
            columns[f"label {label}"] = [each.labels.get(label) for each in self.body.devices]
        return columns


KINDS: dict[str, type[AnalysisResult[Any]]] = {
    "comparison": Comparison,
    "timeline": Timeline,
    "groups": Groups,
    "devices": DeviceHealth,
}
"""The result of each kind of analysis."""


def read_analysis(analysis: AnalysisBody, kind: type[R]) -> R:
    """Return the result of an analysis that has ended.

    Raises
    ------
    DecodingError
        It failed, was cancelled, or has not ended.
    SketchError
        It failed with another error.
    """
    if analysis.result is None:
        if analysis.problem is not None:
            raise error_from_problem(asdict(analysis.problem), analysis.problem.status)
        raise DecodingError(f"was {analysis.state}", field="analysis", fix="ask for it again")
    return kind(body=analysis.result, analysis_id=analysis.analysis_id)
