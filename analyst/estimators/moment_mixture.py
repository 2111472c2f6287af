"""Private synthetic records from moments: a Gaussian for each part, on a private basis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.analyst.estimators.contract import make_event
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.fleets import read_fleet
from sfumato.analyst.estimators.inputs import (
    read_whole,
)
from sfumato.analyst.estimators.labels import (
    place_labels,
    read_parts,
)
from sfumato.analyst.estimators.stored import StoredModel
from sfumato.analyst.sketching.sources import Source
from sfumato.learning.clustering.methods.contract import Answer, Curator
from sfumato.learning.generative.moment_mixture import MomentDesign, MomentMixtureModel
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import PrivacyEvent
from sfumato.shared.system import SystemSource

_DIRECTIONS = 24


@estimator
class MomentMixture(StoredModel):
    """Synthetic records from a Gaussian for each part of the records, from two private releases.

    First the second moments of all records, clipped to a ball, are released with Gaussian noise;
    their leading directions are a basis. Then count, mean and second moments of each part on that
    basis. Everything is a sum of integers with exact noise. Records are drawn from the Gaussians,
    as many as wanted, at no further cost.

    It suits many columns that move together, such as pixels, and parts that are known: labels, or
    any public rule. For a few columns of any shape, a decoded sketch with histograms is better:
    ``DecodeResult.synthesise``.

    Parameters
    ----------
    parts
        The values that ``y`` can have, public: they must not be read off the records. None: all
        records are one part, and ``fit`` takes no ``y``.
    epsilon, delta
        The guarantee: texts such as ``"0.1"`` or ``"1/10"``, integers, fractions, or floats, which
        stand for their decimal text. Gaussian noise needs a delta.
    n_directions
        r, the length of the basis.
    norm
        Radius of the ball: a longer record is pulled in. In half widths of the bounds from their
        centre, or in whole widths from ``lower``. Public.
    origin
        Where lengths are measured from: ``centre`` of the bounds, or ``lower``, where most values
        are at the lower bound, as in images.
    binary
        Whether columns hold 0 or 1: drawn values are then chances, and one of both is drawn.
    random_state
        Steers what is drawn from the Gaussians, never noise.

    Attributes
    ----------
    parts_
        The parts, in the order of what follows.
    part_sizes_
        Shape ``(k,)``: records of each part, with noise; 0 for a part that noise hides.
    means_
        Shape ``(k, d)``, data units.
    basis_
        Shape ``(d, r)``: directions of length 1.
    model_
        :class:`sfumato.learning.generative.moment_mixture.MomentMixtureModel`.
    covariances_
        Shape ``(k, d, d)``, squared data units.
    warnings_
        Of ``from_snapshots``: what should be known about the moments of each part.
    release_, events_, guarantee_
        What was released, what each release spent, and what both guarantee together.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato import MomentMixture
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, size=20_000)
    >>> records = rng.normal(size=(20_000, 3)) + 4.0 * y[:, None]
    >>> model = MomentMixture([0, 1], epsilon="1", delta="1e-6", bounds=(-8, 8), n_directions=3)
    >>> drawn, parts = model.fit(records, y).sample(1000)
    >>> drawn[parts == 1].mean(axis=0).round().tolist()
    [4.0, 4.0, 4.0]
    """

    model_: MomentMixtureModel = result()
    warnings_: tuple[str, ...] = result()
    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "score": "a score of the records would be another release",
            "score_samples": "a score of the records would be another release",
            "feature_names_in_": "the records had no names of columns",
        }
    )

    n_directions: int = _DIRECTIONS
    norm: float = 1.0
    origin: Literal["centre", "lower"] = "centre"

    @classmethod
    def from_snapshots(
        cls,
        snapshots: Mapping[Any, Source],
        *,
        binary: bool = False,
        random_state: object = None,
    ) -> Self:
        """Make a mixture of what a fleet has released: a snapshot of moments for each part.

        Each part is a study of the statistic ``moments``, or some devices or slots of one. The
        Gaussians are in all dimensions, without a basis. Nothing is spent: devices have spent.

        Parameters
        ----------
        snapshots
            By part: what :func:`sfumato.analyst.sketching.sources.find_snapshot` finds, or
            :class:`sfumato.analyst.sketching.answers.LocalSketches`. They share no sketch.
        binary, random_state
            As of the estimator.

        Raises
        ------
        ConfigError
            There is no part, dimensions differ or are no plain numbers, relations or units differ,
            or two parts may share a sketch.
        WrongStatisticError
            A study has no moments.
        DecodingError
            Noise hides every part, or there are too few records.

        Guarantees
        ----------
        Those of the studies, as ``describe()`` composes them. ``guarantee_`` is that of a record
        in one part, provided that devices put it in no more.
        """
        fleet = read_fleet(snapshots)
        found = cls(
            fleet.parts,
            epsilon=fleet.guarantee.epsilon,
            delta=fleet.guarantee.delta,
            bounds=(fleet.model.lower, fleet.model.upper),
            n_directions=len(fleet.names),
            binary=binary,
            relation="replace-one" if fleet.is_replaced else "add-remove-one",
            random_state=random_state,
        )
        found._promise, found.warnings_ = fleet.promise, fleet.warnings
        found.events_, found.guarantee_ = (), fleet.guarantee
        found._note_columns(len(fleet.names), np.array(fleet.names, dtype=object))
        found.model_, found.parts_ = fleet.model, fleet.parts
        found.part_sizes_, found.means_ = fleet.model.sizes, fleet.model.centres
        found.basis_ = fleet.model.basis
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def _require_first(self) -> None:
        if "_promise" in vars(self):
            raise ConfigError(
                "was made of snapshots, and holds no records",
                field=type(self).__name__,
                fix="fit another one",
            )
        super()._require_first()

    def describe(self) -> str:
        """Describe in words what was spent, and what it protects; of snapshots, what they cost."""
        promise: str | None = vars(self).get("_promise")
        return super().describe() if promise is None else promise

    @property
    def covariances_(self) -> Floats:
        """Covariances of the parts: shape ``(k, d, d)``, squared data units."""
        self._require_fitted()
        return self.model_.covariances

    def _place(self, y: Any, n_records: int) -> NDArray[np.intp]:
        # Without parts a y is ignored, as scikit-learn's pipelines pass one to all.
        return place_labels(None if self.parts is None else y, self._read_parts(), n_records)

    def _draw_sums(
        self, design: MomentDesign, rows: Floats, places: NDArray[np.intp] | None
    ) -> Integers:
        assert places is not None
        curator = Curator(rounds=design.rounds, relation=design.relation, source=SystemSource())
        answers = design.release(rows, places, curator)
        return np.concatenate([answer.values for answer in answers])

    def _find_variance(self, design: MomentDesign) -> float:
        return design.parts_noise.variance

    def _draw_records(
        self, n: int, rng: np.random.Generator, parts: list[int] | None
    ) -> tuple[Floats, NDArray[np.intp]]:
        records, places = self.model_.draw(n, rng, parts=parts)
        if self.binary:
            records = (rng.random(records.shape) < records).astype(np.float64)
        return records, places

    def _list_events(
        self, design: MomentDesign, public: Mapping[str, Any]
    ) -> tuple[PrivacyEvent, ...]:
        return tuple(
            make_event(
                {"design": dict(public), "round": planned.name},
                planned,
                relation=design.relation,
                stream=self._name_fit(),
            )
            for planned in design.rounds
        )

    def _read_parts(self) -> list[Any]:
        return [0] if self.parts is None else read_parts(self.parts)

    def _design(self, names: Sequence[str]) -> MomentDesign:
        epsilon, delta, lower, upper = self._read_terms(names)
        r = read_whole(
            self.n_directions,
            "n_directions",
            most=max(len(names), _DIRECTIONS),
            fix="use some 16 to 32",
        )
        design = MomentDesign(
            lower=lower,
            upper=upper,
            origin=self.origin,
            norm=self._read_norm(),
            n_parts=len(self._read_parts()),
            n_directions=min(r, len(names)),
            relation=self.relation,
            epsilon=epsilon,
            delta=delta,
        )
        # Noise that cannot be drawn is refused here, before anything is counted.
        _ = design.basis_noise, design.parts_noise
        return design

    def _read_norm(self) -> float:
        is_number = isinstance(self.norm, int | float | np.number)
        if isinstance(self.norm, bool) or not (is_number and 0.0 < self.norm < np.inf):
            raise ConfigError("must be a finite positive number", field="norm", fix="leave it out")
        return float(self.norm)

    def _publish(self, design: MomentDesign, names: Sequence[str]) -> dict[str, Any]:
        parts = [str(part) for part in self._read_parts()]
        return {**design.public, "parts": parts, "names": list(names)}

    def _read_release(
        self, names: Sequence[str], public: Mapping[str, Any], sums: Integers
    ) -> tuple[float, Sequence[PrivacyEvent]]:
        design = self._design(names)
        if public != self._publish(design, names):
            raise ValueError
        n_sums = design.basis_noise.n_coordinates + design.parts_noise.n_coordinates
        if sums.shape != (n_sums,):
            raise ValueError
        return design.parts_noise.variance, self._list_events(design, public)

    def _show(self, names: Sequence[str]) -> None:
        design = self._design(names)
        n = design.records_statistic.n_coordinates
        names = [planned.name for planned in design.rounds]
        stretches = self.release_.sums[:n].copy(), self.release_.sums[n:].copy()
        self.model_ = design.read(
            [
                Answer(name=name, asked={}, values=values)
                for name, values in zip(names, stretches, strict=True)
            ]
        )
        self.parts_ = self._read_parts()
        self.part_sizes_ = self.model_.sizes
        self.basis_ = self.model_.basis
        self.means_ = self.model_.centres
