"""Estimators of the literature's central methods of private clustering: what they share."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from sfumato.analyst.estimators.columns import Bounds, Scale, read_box
from sfumato.analyst.estimators.contract import absent, describe_guarantee, make_event
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.evaluation import EvaluatedEstimator, Placed
from sfumato.analyst.estimators.inputs import (
    Exact,
    find_names,
    list_names,
    read_rng,
    read_rows,
    read_seed,
)
from sfumato.analyst.estimators.sizes import (
    count_public,
    read_clusters,
    read_scale,
    require_signal,
)
from sfumato.learning.clustering.methods.contract import (
    Curator,
    Method,
    QuantisedRecords,
    Round,
    Task,
    join_rounds,
)
from sfumato.learning.clustering.methods.release import ClusterRelease, describe_design
from sfumato.learning.decoding.kmeans import assign
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.privacy import PrivacyEvent, PrivacyGuarantee, compose
from sfumato.shared.privacy.accounting import join_events
from sfumato.shared.system import SystemSource

_MISSING = -1
_SHOWN_COLUMNS = 7
_SEED_BYTES = 32
_WORD = 8


ABSENT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "labels_": "labels of the records would not be private; call predict for others",
        "inertia_": "a cost of the records is another release; call evaluate",
        "n_iter_": "the rounds are known before the records: see events_",
        "score": "a score of the records is another release; call evaluate",
        "fit_predict": "labels of the records would not be private; call predict for others",
        "fit_transform": "the transformed records would not be private",
        "feature_names_in_": "the records had no names of columns",
    }
)
"""What a private clustering has not, and why."""


class _NotOfRecords:
    """Methods of scikit-learn's base classes that would show the records."""

    fit_predict = absent()
    fit_transform = absent()


@estimator
class CentralEstimator(
    _NotOfRecords,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    EvaluatedEstimator,
):
    """An estimator of the clusters of records in one place.

    Parameters
    ----------
    n_clusters
        k.
    bounds
        ``(lower, upper)``: numbers, or arrays of shape ``(d,)``, or a mapping of columns to pairs;
        data units. Required and public: they must not be read off the records.
    scale
        Standard deviation inside one cluster, a number or one a column, from public knowledge.
    max_records
        Required under ``add-remove-one``: a public number of records that sizes and rounds follow
        from.
    public_seed
        Seed of choices that depend on no record; it is published. None: fresh.

    Attributes
    ----------
    cluster_centers_
        Shape ``(k, d)``, data units, by falling weight.
    weights_
        Shape ``(k,)``: shares of the records, with noise.
    metric_
        Lengths that count as one along each axis.
    release_, events_, guarantee_
        What was released: a :class:`sfumato.ClusterRelease` that can be stored and read again; what
        each round spent; and what all guarantee together.
    """

    n_clusters: int = field(default=8, kw_only=False)
    epsilon: Exact
    bounds: Bounds
    scale: Scale | None = None
    max_records: int | None = None
    public_seed: int | str | bytes | None = None

    cluster_centers_: Floats = result()
    weights_: Floats = result()

    _ABSENT: ClassVar[Mapping[str, str]] = ABSENT


@estimator
class ClusteringEstimator(CentralEstimator):
    """An estimator that plans its rounds, asks them of the records, and keeps the answers alone.

    A subclass declares its parameters and makes a method of them in ``_make_method``.
    """

    release_: ClusterRelease = result()  # type: ignore[assignment]  # of several rounds

    def _make_method(self, lower: Floats, upper: Floats) -> Method:
        raise NotImplementedError

    # ---- fitting ----

    def _fit(self, X: Any) -> None:  # noqa: N803
        """Ask the planned questions about some records, with noise, and compute centroids."""
        rows, found, names = self._read_numbers(X)
        plan = self._plan(len(rows), names)
        read_rng(self.random_state)
        quantiser = Quantiser.from_bounds(plan.lower, plan.upper)
        records = QuantisedRecords.of(rows, quantiser)
        events = plan.list_events(self._name_fit())

        def release() -> ClusterRelease:
            # The seed is fresh unless it is stated: a fit that was cut off was seen by nobody.
            stated = plan.task.seed or secrets.token_bytes(_SEED_BYTES)
            task = replace(plan.task, seed=stated)
            curator = Curator(
                rounds=plan.rounds,
                relation=task.relation,
                source=SystemSource(),
                progress=self._follow_step(f"{len(plan.rounds)} rounds"),
            )
            plan.method.release(records, task, curator)
            return ClusterRelease(
                method=plan.method,
                task=task,
                lower=plan.lower,
                upper=plan.upper,
                names=plan.names,
                answers=tuple(curator.answers),
            )

        with self._take_turn(plan.design) as turn:
            # All rounds are counted together before the first is asked; a turn has kept them.
            packed = self._draw_once(turn, lambda: pack(release().encode()), *events)
            self.release_ = ClusterRelease.decode(unpack(packed))
            self.guarantee_ = compose_rounds(self.events_)
            self._note_columns(rows.shape[1], found)
            self._answer(plan.task.n_clusters)

    def _describe_condition(self) -> str:
        return describe_condition(self.release_)

    def _state_spent(self, events: Sequence[PrivacyEvent]) -> PrivacyGuarantee:
        return compose_rounds(events)

    def plan_events(
        self, n_records: int, n_features: int, *, names: Sequence[str] | None = None
    ) -> tuple[PrivacyEvent, ...]:
        """Return what a fit of so many records and columns will spend; reads no record.

        Parameters
        ----------
        names
            Names of the columns, where parameters name them.
        """
        known = list(names or list_names(None, n_features))
        return self._plan(n_records, known).list_events(self._name_fit())

    def decode(self, n_clusters: int | None = None) -> Self:
        """Compute clusters anew from the release, also for another k: this spends nothing.

        Parameters
        ----------
        n_clusters
            Another number of clusters; None for the parameter.

        Raises
        ------
        ConfigError
            The release does not tell of so many clusters.
        """
        self._require_fitted()
        k = read_clusters(self.n_clusters if n_clusters is None else n_clusters)
        self._answer(k)
        self.n_clusters = k
        return self

    def predict(self, X: Any) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the nearest centroid of records: shape ``(n,)``; -1 where a value is missing.

        The centroids are public, but what is computed here from private records is as private as
        they are.

        Raises
        ------
        TableError
            The columns are not those of the fit.
        """
        rows = self._read_points(X)
        labels = np.full(len(rows), _MISSING, dtype=np.intp)
        whole = np.isfinite(rows).all(axis=1)
        if whole.any():
            labels[whole] = self._label(rows[whole])
        return labels

    def transform(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return distances of records to all centroids: shape ``(n, k)``, in units of ``metric_``.

        Raises
        ------
        TableError
            The columns are not those of the fit.
        """
        rows = self._read_points(X)
        distances = np.empty((len(rows), len(self.cluster_centers_)))
        for i, centroid in enumerate(self.cluster_centers_ / self.metric_):
            distances[:, i] = np.sqrt(np.sum((rows - centroid) ** 2, axis=1))
        return distances

    @property
    def metric_(self) -> Floats:
        """Lengths that count as one along each axis: shape ``(d,)``.

        All 1, so that distances are in data units, where all bounds are equally wide, and otherwise
        half their widths.
        """
        self._require_fitted()
        return measure_by(self.release_.lower, self.release_.upper)

    @property
    def _n_features_out(self) -> int:
        self._require_fitted()
        return len(self.cluster_centers_)

    def __str__(self) -> str:
        if "release_" not in vars(self):
            return f"{type(self).__name__}: not fitted"
        lines = [f"{type(self).__name__}: {len(self.weights_)} clusters", f"  {self.describe()}"]
        for share, centroid in zip(self.weights_, self.cluster_centers_, strict=True):
            cells = "  ".join(f"{value:.4g}" for value in centroid[:_SHOWN_COLUMNS])
            more = "  ..." if len(centroid) > _SHOWN_COLUMNS else ""
            lines.append(f"{share:7.1%}  {cells}{more}")
        return "\n".join(lines)

    # ---- before the records ----

    def _plan(self, n_records: int, names: Sequence[str]) -> _Plan:
        lower, upper = read_box(self.bounds, names)
        epsilon, delta = self._read_level()
        method = self._make_method(lower, upper)
        task = Task(
            n_records=count_public(self.relation, n_records, self.max_records),
            n_dimensions=len(names),
            n_clusters=read_clusters(self.n_clusters),
            epsilon=epsilon,
            delta=delta,
            relation=self.relation,
            scale=read_scale(self.scale, names, (upper - lower) / 2.0),
            seed=bytes.fromhex(read_seed(self.public_seed) or ""),
        )
        rounds = method.plan_rounds(task)
        require_signal(task)
        return _Plan(
            method=method,
            task=task,
            rounds=rounds,
            lower=lower,
            upper=upper,
            names=tuple(names),
        )

    # ---- after the release ----

    def _answer(self, n_clusters: int) -> None:
        found = self.release_.recover(n_clusters, rng=read_rng(self.random_state))
        self.cluster_centers_ = self.release_.locate(found.centroids)
        self.weights_ = found.shares

    def _label(self, rows: Floats) -> NDArray[np.intp]:
        """Return the cluster of whole records, in units of the metric."""
        labels, _ = assign(rows, self.cluster_centers_ / self.metric_)
        return labels

    def _place_all(self, X: Any) -> Placed:  # noqa: N803
        points, metric = self._read_points(X), self.metric_
        return Placed(
            points=points,
            centroids=self.cluster_centers_ / metric,
            lower=self.release_.lower / metric,
            upper=self.release_.upper / metric,
        )

    def _read_points(self, X: Any) -> Floats:  # noqa: N803
        """Return records in units of the metric."""
        self._require_fitted()
        rows = read_rows(X)
        self._require_columns(rows.shape[1], find_names(X))
        with np.errstate(over="ignore", invalid="ignore"):
            scaled: Floats = rows / self.metric_
        return scaled


def measure_by(lower: Floats, upper: Floats) -> Floats:
    """Return the lengths that count as one under some bounds: 1 if equally wide, or half widths."""
    half = (upper - lower) / 2.0
    return np.ones_like(half) if np.all(half == half[0]) else half


def describe_release(release: ClusterRelease) -> str:
    """Describe in words what a release protects, and in how many rounds it was made."""
    n_rounds = len(release.answers)
    published = ", as published" if is_published(release) else ""
    return (
        f"{describe_guarantee(state_guarantee(release))} Method {release.method.name}{published}, "
        f"{n_rounds} {'round' if n_rounds == 1 else 'rounds'}."
        f"{describe_condition(release)}"
    )


def describe_condition(release: ClusterRelease) -> str:
    """Describe what must hold of the records for the guarantee to hold; mostly nothing."""
    condition = getattr(release.method, "condition", "")
    return f" {condition}." if condition else ""


def is_published(release: ClusterRelease) -> bool:
    """Return whether a method asked as its paper has it, where ours differs."""
    return bool(release.method.describe().get("is_published"))


def state_guarantee(release: ClusterRelease) -> PrivacyGuarantee:
    """Return what a release guarantees: no delta where all its noise is pure."""
    task = release.task
    is_pure = not any(planned.delta for planned in release.method.plan_rounds(task))
    return PrivacyGuarantee(
        epsilon=task.epsilon,
        delta=Fraction(0) if is_pure else task.delta,
        neighbouring=task.relation,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """All that is decided before a record is read."""

    method: Method
    task: Task
    rounds: tuple[Round, ...]
    lower: Floats
    upper: Floats
    names: tuple[str, ...]

    @property
    def design(self) -> dict[str, Any]:
        return describe_design(self.method, self.task, self.lower, self.upper, self.names)

    def list_events(self, stream: str) -> tuple[PrivacyEvent, ...]:
        """Return the event of each round, or the one of rounds that are bounded together."""
        return tuple(
            make_event(
                {"design": self.design, "round": i},
                planned,
                relation=self.task.relation,
                stream=stream,
            )
            for i, planned in enumerate(join_rounds(self.task, self.rounds))
        )


def compose_rounds(events: Sequence[PrivacyEvent]) -> PrivacyGuarantee:
    """Return what all rounds of all fits guarantee together."""
    joint = join_events(events)
    loss = compose(events, delta=joint.delta)
    assert loss is not None
    return PrivacyGuarantee(
        epsilon=loss.epsilon,
        delta=joint.delta,
        neighbouring=joint.neighbouring,
        rho=joint.rho if joint.delta else None,
    )


def pack(data: bytes) -> Integers:
    """Return bytes as the whole numbers that a turn keeps."""
    padded = len(data).to_bytes(_WORD, "little") + data
    return np.frombuffer(padded.ljust(-(-len(padded) // _WORD) * _WORD, b"\0"), dtype="<i8")


def unpack(packed: Integers) -> bytes:
    """Return the bytes that :func:`pack` has packed."""
    data = packed.astype("<i8").tobytes()
    return data[_WORD : _WORD + int.from_bytes(data[:_WORD], "little")]
