"""Results of decodes, as a server or a solver on this machine gives them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.periods import describe_slots
from sfumato.analyst.results.assignment import Assignment
from sfumato.analyst.results.files import read_file, seal, write_file
from sfumato.analyst.results.notebook import describe_as_html
from sfumato.analyst.results.synthetic import HistogramSource, SyntheticRecords, draw_parts
from sfumato.analyst.results.tables import make_frame, read_records
from sfumato.learning.answers.errors import describe_errors
from sfumato.learning.answers.questions import Inquiry
from sfumato.learning.answers.words import name_clusters
from sfumato.learning.decoding.solution import Solution
from sfumato.learning.generative.columns import Column
from sfumato.learning.generative.synthesis import Origin
from sfumato.learning.planning.looks import ShownResult
from sfumato.shared.arrays import Bools, Floats
from sfumato.shared.errors import ConfigError, DecodingError, MethodError
from sfumato.shared.plan import SketchPlan, compute_plan_digest, plan_from_json, plan_to_json
from sfumato.shared.structure import structure
from sfumato.shared.wire import error_from_problem
from sfumato.shared.wire.objects.answers import (
    DimensionBody,
    PromiseBody,
    VerdictBody,
    describe_promise,
)
from sfumato.shared.wire.objects.declaration import SearchBox, make_body
from sfumato.shared.wire.objects.looks import LooksBody
from sfumato.shared.wire.objects.results import (
    BandBody,
    BarsBody,
    ChoiceBody,
    DecodeBody,
    EvidenceBody,
    InfluenceBody,
    MixtureBody,
    ResultBody,
    SnapshotBody,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnyResult = TypeVar("AnyResult", bound="DecodeResult")
FINAL_STATES = ("succeeded", "failed", "cancelled")
UNUSABLE = "do not use"
"""The verdict on a result that is withheld unless ``allow_unusable`` is passed."""
_NO_VERDICT = VerdictBody(word="doubtful", sentence="no verdict was given")
_NO_BARS = BarsBody(word="none", sentence="the decoder finds no error bars")
_NO_BOX: Mapping[str, Sequence[float]] = {}


@dataclass(frozen=True, eq=False, repr=False)
class DecodeResult:
    """Centroids recovered from private sketches, with evidence and statements of their quality.

    Two results are equal if all of their content is, times of computing aside.

    Parameters
    ----------
    body
        The figures and statements, as a server sends them.
    plan
        The plan of the study.
    snapshot
        The global sketch that was decoded; None for files of sketches, which no server has frozen.
    decode_id, seed
        Identity of the decode, empty without a server; and the seed of its random starts, if any
        is known.
    sums_digest
        Digest of the sums of files of sketches; empty for a snapshot, which has its own.
    posterior
        Answers questions on the density; None for a result of a server, which answers them by
        ``Client.ask``. It is not saved.
    margins
        Distributions of single columns that a pilot of the same records found. Not saved.
    """

    body: ResultBody
    plan: SketchPlan
    _: KW_ONLY
    snapshot: SnapshotBody | None = None
    decode_id: str = ""
    seed: int | None = None
    sums_digest: str = ""
    posterior: Inquiry | None = None
    margins: Sequence[Column] = ()

    @classmethod
    def of_solution(
        cls,
        plan: SketchPlan,
        solution: Solution,
        *,
        snr: float,
        seconds: float,
        promise: PromiseBody | None = None,
        search_box: Mapping[str, Sequence[float]] = _NO_BOX,
        seed: int | None = None,
        sums_digest: str = "",
        posterior: Inquiry | None = None,
        margins: Sequence[Column] = (),
    ) -> Self:
        """Return the result of a solver on this machine.

        Parameters
        ----------
        promise
            What all that was spent promises together; by default the plan's promise.
        """
        decoder, _, version = solution.solver.partition("/")
        verdict, evidence = solution.verdict, solution.evidence
        centroids = plan.space.encoder.decode(solution.centroids)
        names = [each.name for each in plan.axes]
        body = make_body(
            ResultBody,
            solution,
            dimensions=[DimensionBody(name=each.name, unit=each.unit) for each in plan.axes],
            search_box={name: list(bounds) for name, bounds in search_box.items()},
            centroids=centroids.tolist(),
            words=name_clusters(centroids, solution.weights, names),
            mixture=solution.mixture and make_body(MixtureBody, solution.mixture),
            choice=solution.choice and make_body(ChoiceBody, solution.choice),
            residual=float(solution.residual),
            noise_floor=float(solution.noise_floor),
            decoder=decoder,
            decoder_version=int(version),
            warnings=list(solution.warnings),
            snr=snr,
            verdict=verdict and make_body(VerdictBody, verdict),
            band=verdict
            and BandBody(
                low=verdict.low,
                high=verdict.high if np.isfinite(verdict.high) else None,
                statement=verdict.describe_band(),
            ),
            evidence=evidence and make_body(EvidenceBody, evidence),
            influence=solution.influence and make_body(InfluenceBody, solution.influence),
            resolved=None if evidence is None else evidence.resolved.tolist(),
            privacy=promise or describe_promise(plan),
            seconds=seconds,
            **describe_errors(plan, solution),
        )
        return cls(
            body, plan, seed=seed, sums_digest=sums_digest, posterior=posterior, margins=margins
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes; an axis of a level is named ``dimension=level``."""
        return tuple(each.name for each in self.body.dimensions)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the axes."""
        return tuple(each.unit for each in self.body.dimensions)

    @property
    def n_clusters(self) -> int:
        """The number of clusters k."""
        return len(self.body.weights)

    @cached_property
    def centroids(self) -> Floats:
        """Centroids by falling weight: shape ``(k, d)``, data units."""
        return _freeze(np.array(self.body.centroids, dtype=np.float64))

    @cached_property
    def weights(self) -> Floats:
        """Shares of the records: shape ``(k,)``, summing to 1."""
        return _freeze(np.array(self.body.weights, dtype=np.float64))

    @cached_property
    def spreads(self) -> Floats | None:
        """Standard deviation of each cluster's records: ``(k, d)``; None if none was found."""
        found = self.body.spreads
        return None if found is None else _freeze(np.array(found, dtype=np.float64))

    @cached_property
    def resolved(self) -> Bools | None:
        """Whether each centroid can be told from noise: ``(k,)``; None if that is not known."""
        found = self.body.resolved
        return None if found is None else np.array(found, dtype=np.bool_)

    @cached_property
    def centroid_errors(self) -> Floats | None:
        """Standard errors of the centroids: ``(k, d)``; None where no bars are shown.

        1.645 of them either way are a 90 % bar; :attr:`bars` tells what it means.
        """
        found = self.body.centroid_errors
        return None if found is None else _freeze(np.array(found, dtype=np.float64))

    @cached_property
    def weight_errors(self) -> Floats | None:
        """Standard errors of the weights: ``(k,)``; None where no bars are shown."""
        found = self.body.weight_errors
        return None if found is None else _freeze(np.array(found, dtype=np.float64))

    @property
    def bars(self) -> BarsBody:
        """Kind of the error bars, "stated", "rough" or "none", and what they mean."""
        return self.body.bars or _NO_BARS

    @property
    def verdict(self) -> str:
        """How far to trust the result: "sound", "rough", "doubtful" or "do not use"."""
        return (self.body.verdict or _NO_VERDICT).word

    @property
    def reason(self) -> str:
        """Why the verdict is given."""
        return (self.body.verdict or _NO_VERDICT).sentence

    @property
    def quality(self) -> str:
        """The expected quality in words; empty if none is predicted."""
        # Of the decoder that was used: the paper's rule is for the paper's decoder.
        predicted = self.body.band or self.body.quality
        return "" if predicted is None else predicted.statement

    @property
    def privacy(self) -> str:
        """The protection of each sketch in words."""
        return self.body.privacy.statement

    @property
    def snr(self) -> float:
        """Signal-to-noise ratio of the global sketch."""
        return self.body.snr

    @property
    def residual(self) -> float:
        """Mean squared residual of the fit."""
        return self.body.residual

    @property
    def noise_floor(self) -> float:
        """Mean squared residual that noise alone leaves."""
        return self.body.noise_floor

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings: devices that were excluded since, then those of the decoder."""
        return (*filter(None, (self.outdated,)), *self.body.warnings)

    @property
    def outdated(self) -> str:
        """Why the result is out of date; empty if none of its devices was excluded since."""
        n_excluded = 0 if self.snapshot is None else self.snapshot.n_excluded_devices
        if not n_excluded:
            return ""
        devices = (
            "1 device in this result was"
            if n_excluded == 1
            else (f"{n_excluded:,} devices in this result were")
        )
        return f"{devices} excluded later: do not use it, decode again"

    @property
    def decoder(self) -> str:
        """Name of the decoder."""
        return self.body.decoder

    @property
    def decoder_version(self) -> int:
        """Version of the decoder."""
        return self.body.decoder_version

    @property
    def seconds(self) -> float:
        """Time that decoding took."""
        return self.body.seconds

    @property
    def choice(self) -> ChoiceBody | None:
        """The choice of the number of clusters, if the decoder made one."""
        return self.body.choice

    @property
    def evidence(self) -> EvidenceBody | None:
        """The evidence behind the verdict."""
        return self.body.evidence

    @property
    def looks(self) -> LooksBody | None:
        """The second looks that measured the clusters, and what the sketch alone predicts."""
        return self.body.looks

    @property
    def search_box(self) -> SearchBox:
        """Bounds of the axes where clusters were searched for inside narrower ones than usual."""
        return self.body.search_box

    @property
    def snapshot_id(self) -> str:
        """Identity of the snapshot; empty without a server."""
        return "" if self.snapshot is None else self.snapshot.snapshot_id

    @property
    def digest(self) -> str:
        """SHA-256 of the sums that were decoded."""
        return self.sums_digest if self.snapshot is None else self.snapshot.digest

    @property
    def identity(self) -> bytes:
        """SHA-256 of plan, sums, centroids and shares: what the plan of a second look names."""
        return self.shown.identity

    @property
    def shown(self) -> ShownResult:
        """The parts of the result that a second look is planned from."""
        known = {} if self.snapshot is None else vars(self.snapshot)
        sizes = {name: known[name] for name in ("n_records", "n_sketches") if name in known}
        return ShownResult(plan=self.plan, body=self.body, digest=self.digest, **sizes)

    @property
    def selection(self) -> str:
        """The period and the labels that were chosen, in words; empty for all sketches."""
        if self.snapshot is None:
            return ""
        chosen = self.snapshot.selection
        is_bounded = not chosen.first_slot is chosen.last_slot is None
        slots = describe_slots(self.plan.window, chosen.first_slot, chosen.last_slot)
        labels = [f"{name} = {value}" for name, value in chosen.labels.items()]
        return ", ".join([*([slots] if is_bounded else []), *labels])

    def predict(self, X: Any) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the cluster of each record, 0 to k - 1: shape ``(n,)``; -1 for a missing value.

        The cluster is the most likely one if a density was fitted, else that of the nearest
        centroid in the plan's scales. Records are read here and go nowhere. The centroids may be
        shown to anybody; which cluster a private record is in is as private as the record.

        Parameters
        ----------
        X
            A frame of pandas, polars or Arrow or a mapping of columns: dimensions are found by
            name, in any order. Or an array of shape ``(n, d)`` in the order of the plan.

        Raises
        ------
        TableError
            A column is missing or has no numbers, or the array has another shape.
        """
        return self._assignment.find_clusters(read_records(X, self.plan))

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the probability of each cluster for each record: shape ``(n, k)``.

        Rows of records with a missing value are NaN.

        Parameters
        ----------
        X
            As for :meth:`predict`.

        Raises
        ------
        TableError
            As for :meth:`predict`.
        MethodError
            The decoder fitted no density.
        """
        if self.body.mixture is None:
            raise MethodError(
                f"needs a density, and the decoder {self.decoder!r} fits none",
                field="predict_proba",
                fix='decode with decoder="mixture", or use predict',
            )
        return self._assignment.compute_shares(read_records(X, self.plan))

    def to_frame(self, library: str = "pandas") -> Any:
        """Return a frame with a row for each cluster: its number, share, centroid and spreads.

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

    def to_columns(self) -> dict[str, list[Any]]:
        """Return the columns of :meth:`to_frame`, by name."""
        own: dict[str, list[Any]] = {
            "cluster": list(range(self.n_clusters)),
            "weight": list(self.body.weights),
        }
        if self.body.resolved is not None:
            own["resolved"] = list(self.body.resolved)
        # A dimension may have the name of one of these, and keeps it.
        columns = {_make_free(name, self.names): column for name, column in own.items()}
        columns |= {
            name: [row[i] for row in self.body.centroids] for i, name in enumerate(self.names)
        }
        if self.body.spreads is not None:
            columns |= {
                _make_free(f"{name} (spread)", self.names): [row[i] for row in self.body.spreads]
                for i, name in enumerate(self.names)
            }
        return columns

    def plot(
        self, *, pairs: Sequence[tuple[int, int]] | None = None, title: str | None = None
    ) -> Figure:
        """Draw centroids over pairs of axes, and their shares, with matplotlib.

        Parameters
        ----------
        pairs
            Numbers of axes, a panel for each pair; by default the first six in turn.
        title
            Above the figure; by default the verdict.
        """
        # matplotlib takes a second to import; only pictures need it.
        from sfumato.analyst.plots import plot_centroids  # noqa: PLC0415

        chosen = pairs or [
            (i, min(i + 1, len(self.names) - 1)) for i in range(0, min(6, len(self.names)), 2)
        ]
        return plot_centroids(
            self,
            pairs=chosen,
            first_number=0,
            title=title or f"{self.verdict}: {self.reason}",
            readings=self.body.words,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result with its plan and its origin into a JSON file, whole or not at all.

        Raises
        ------
        ConfigError
            The file cannot be written.
        """
        write_file(Path(path), self.to_file())

    def to_file(self) -> str:
        """Return the content of the file that :meth:`save` writes."""
        return json.dumps(seal(self._to_document()), ensure_ascii=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that :meth:`save` wrote, and check its digest, its plan and its shapes.

        Raises
        ------
        ConfigError
            It cannot be read, or is not as it was written.
        PlanError
            Its plan is not one.
        UnsupportedVersionError
            A later release wrote it.
        """
        document = read_file(Path(path))
        given = document.get("snapshot")
        result = cls(
            structure(ResultBody, document.get("result"), "result", strict=False),
            plan_from_json(document.get("plan")),
            snapshot=given and structure(SnapshotBody, given, "snapshot", strict=False),
            decode_id=str(document.get("decode_id", "")),
            seed=document.get("seed"),
            sums_digest=str(document.get("sums_digest", "")),
        )
        result._require_shapes(str(path))
        return result

    def to_json(self) -> dict[str, Any]:
        """Return figures and statements as JSON values, flat."""
        body = asdict(self.body)
        left_out = ("dimensions", "verdict", "privacy", "quality", "band")
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "decode_id": self.decode_id,
            "snapshot_id": self.snapshot_id,
            "digest": self.digest,
            "seed": self.seed,
            "names": list(self.names),
            "units": list(self.units),
            "quality": self.quality,
            "privacy": self.privacy,
            **{name: value for name, value in body.items() if name not in left_out},
        }

    def synthesise(
        self,
        n_records: int = 1000,
        *,
        histogram: HistogramSource | None = None,
        seed: int = 0,
        allow_unusable: bool = False,
    ) -> SyntheticRecords:
        """Draw synthetic records from the densities of this result; costs no privacy.

        Parameters
        ----------
        histogram
            Files of a histogram of the same records: columns follow it. None
            stands for that of a pilot, if there was one.
        seed
            The same one gives the same records.
        allow_unusable
            Draw also where the verdict is "do not use".

        Raises
        ------
        ConfigError
            ``n_records`` is less than 1.
        WrongStatisticError
            The files hold no histogram.
        DecodingError
            There are no densities here, the result is not to be used, or the histogram has none of
            its columns.
        """
        if self.posterior is None:
            raise DecodingError(
                "are not here: a server keeps them, or the decoder found none",
                field="densities",
                fix="call `synthesise` of a client, with the id of a decode",
            )
        return draw_parts(
            self.posterior,
            n_records,
            verdict=self.verdict,
            origin=Origin(
                snapshot_id=self.sums_digest, decoder=f"{self.decoder}/{self.decoder_version}"
            ),
            promise=self.body.privacy,
            margins=self.margins,
            histogram=histogram,
            seed=seed,
            allow_unusable=allow_unusable,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DecodeResult):
            return NotImplemented
        return self._content == other._content

    def __hash__(self) -> int:
        return hash((self.decode_id, tuple(self.body.weights)))

    def __repr__(self) -> str:
        shares = ", ".join(f"{weight:.1%}" for weight in self.body.weights[:5])
        more = ", ..." if self.n_clusters > 5 else ""
        return f"<DecodeResult {self.verdict}: {self.n_clusters} clusters ({shares}{more})>"

    def _repr_html_(self) -> str:
        return describe_as_html(
            self.body, verdict=self.verdict, reason=self.reason, warnings=self.warnings
        )

    def _to_document(self) -> dict[str, Any]:
        return {
            "plan": plan_to_json(self.plan),
            "plan_digest": compute_plan_digest(self.plan).hex(),
            "snapshot": None if self.snapshot is None else asdict(self.snapshot),
            "decode_id": self.decode_id,
            "seed": self.seed,
            "sums_digest": self.sums_digest,
            "result": asdict(self.body),
        }

    @cached_property
    def _content(self) -> dict[str, Any]:
        document = self._to_document()
        del document["result"]["seconds"]
        return document

    def _require_shapes(self, field: str) -> None:
        axes = [each.name for each in self.plan.axes]
        body = self.body
        tables = [body.centroids, body.spreads or body.centroids]
        is_whole = (
            list(self.names) == axes
            and all(len(table) == self.n_clusters for table in tables)
            and all(len(row) == len(axes) for table in tables for row in table)
        )
        if not is_whole:
            raise ConfigError(
                "does not suit its plan: its tables have other axes",
                field=field,
                fix="save the result again from where it was computed",
            )

    @cached_property
    def _assignment(self) -> Assignment:
        return Assignment(self.plan, self.centroids, self.body.mixture)


def require_success(decode: DecodeBody) -> ResultBody:
    """Return the body of the result of a decode that has ended.

    Raises
    ------
    SketchError
        It has none; the error says why.
    """
    if decode.state == "succeeded" and decode.result is not None:
        return decode.result
    if decode.problem is not None:
        raise error_from_problem(asdict(decode.problem), 500)
    raise DecodingError(f"was {decode.state}", field="decode", fix="ask for it again")


def require_usable(result: AnyResult, *, allow_unusable: bool) -> AnyResult:
    """Return a result whose verdict allows it.

    Raises
    ------
    DecodingError
        The verdict is "do not use", and that is not allowed.
    """
    if result.verdict == UNUSABLE and not allow_unusable:
        raise DecodingError(
            f"gave a result with the verdict {UNUSABLE!r}: {result.reason}",
            field="decode",
            fix="pass allow_unusable=True, or --allow-unusable, to see it",
        )
    return result


def _freeze(array: Floats) -> Floats:
    array.setflags(write=False)
    return array


def _make_free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
