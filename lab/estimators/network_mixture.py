"""Private synthetic records from networks: one for each part, trained with exact noise."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.analyst.estimators.contract import make_event
from sfumato.analyst.estimators.declaration import estimator, result
from sfumato.analyst.estimators.inputs import (
    Exact,
    find_names,
    read_number,
    read_rows,
    read_seed,
    read_whole,
)
from sfumato.analyst.estimators.labels import (
    place_labels,
    read_parts,
)
from sfumato.analyst.estimators.stored import StoredModel
from sfumato.lab.generative.accounting import MOST_STEPS
from sfumato.lab.generative.network_mixture import (
    MOST_PARTS,
    NetworkDesign,
    NetworkMixtureModel,
    read_rate,
)
from sfumato.lab.generative.networks.clipping import Clipping
from sfumato.lab.generative.networks.fixed_point import MOST_FEATURES
from sfumato.lab.generative.partition import FeatureMap, KernelPartition
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy import PrivacyEvent, PrivacyGuarantee
from sfumato.shared.system import SystemSource

_MOST_ROUNDS: Final = 1000
_MOST_KERNEL_FEATURES: Final = 4000
_RATES: Final = {"vae": 0.02, "rbm": 0.2}


@estimator
class NetworkMixture(StoredModel):
    """Synthetic records from a generative network for each part of the records.

    Parts are labels, or are found first by private k-means on random features. Then every part's
    network is trained: in each step each of its records joins a batch by a public chance, its
    gradient is clipped, and noise is added to the sum. Everything that is computed from a record is
    a whole number and all noise is drawn exactly, so that no rounding weakens the guarantee. The
    loss is composed by ``dp-accounting``, of the extra ``generative``.

    It suits many columns with values between bounds, such as pixels, where there are some ten
    thousand records a part and epsilon is 2 or more. ``MomentMixture`` is faster, and better at
    small epsilons.

    Parameters
    ----------
    parts
        The values that ``y`` can have, public: they must not be read off the records. None: parts
        are found, or there is one, and ``fit`` takes no ``y``.
    epsilon, delta
        The guarantee: texts such as ``"2"`` or ``"1/2"``, integers, fractions, or floats, which
        stand for their decimal text. Gaussian noise needs a delta.
    n_parts
        k, where parts are found; 1 for one network of all records.
    start
        Shape ``(k, d)``, data units: public records that the parts to be found start from.
    share_for_parts
        The share of the squared Gaussian strength that finding parts gets.
    n_rounds, n_kernel_features, bandwidth
        How often centroids move, the random features of a record, and the distance at which records
        differ, in half widths of the bounds; None for half the square root of d.
    network
        ``vae``, a variational autoencoder, or ``rbm``, a restricted Boltzmann machine, whose
        columns are zeros and ones.
    n_hidden, n_latent
        Hidden units of each side, and the length of the code in between.
    batch_rate, n_steps
        The chance of a record to be in a batch, and the batches of each training. Public.
    learning_rate
        Of Adam, which moves the weights; their running mean is kept. None: 0.02, or 0.2 for a
        machine, whose columns start from even chances.
    clipping
        ``auto`` gives all gradients nearly one length and needs no threshold. ``fixed`` shortens
        those above ``clipping_norm``. ``dpnorm`` finds a threshold up to it in every step, which
        costs a tenth of the step's squared strength.
    clipping_norm
        Length of a gradient, public; not used by ``auto``.
    binary
        Whether columns hold 0 or 1: drawn values are then chances, and one of both is drawn.
    relation
        ``add-remove-one``, where the number of records is secret too, or ``replace-one``, which
        costs twice as much here.
    public_seed
        Steers what depends on no record: first weights, frequencies and directions. Published.
    random_state
        Steers what is drawn from the networks, never noise.

    Attributes
    ----------
    parts_
        The parts, in the order of what follows.
    part_sizes_
        Shape ``(k,)``: records of each part, with noise; 0 for a part that noise hides.
    multiplier_
        Standard deviation of a step's noise over the length of a clipped gradient.
    model_
        :class:`sfumato.lab.generative.network_mixture.NetworkMixtureModel`.
    release_, events_, guarantee_
        What was released, what it spent, and what it guarantees.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.lab import NetworkMixture
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, size=4000)
    >>> records = (rng.random((4000, 6)) < np.where(y, 0.9, 0.1)[:, None]).astype(float)
    >>> model = NetworkMixture(
    ...     [0, 1], epsilon="4", delta="1e-5", bounds=(0, 1), binary=True,
    ...     n_hidden=8, n_latent=2, n_steps=60, learning_rate=0.05,
    ... )
    >>> drawn, parts = model.fit(records, y).sample(1000)
    >>> bool(drawn[parts == 1].mean() > 0.7), bool(drawn[parts == 0].mean() < 0.3)
    (True, True)
    """

    model_: NetworkMixtureModel = result()
    _ABSENT: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "labels_": "parts of the records would not be private; call predict for others",
            "loss_": "a loss of the records would be another release",
            "n_iter_": "the steps are public: see n_steps",
            "score": "a score of the records would be another release",
            "score_samples": "a score of the records would be another release",
            "feature_names_in_": "the records had no names of columns",
        }
    )

    n_parts: int = 1
    start: ArrayLike | None = None
    share_for_parts: Exact = "1/4"
    n_rounds: int = 5
    n_kernel_features: int = 200
    bandwidth: float | None = None
    network: Literal["vae", "rbm"] = "vae"
    n_hidden: int = 100
    n_latent: int = 8
    batch_rate: float = 0.15
    n_steps: int = 100
    learning_rate: float | None = None
    clipping: Literal["auto", "fixed", "dpnorm"] = "auto"
    clipping_norm: float = 10.0
    relation: Literal["replace-one", "add-remove-one"] = "add-remove-one"
    public_seed: int | str | bytes | None = None

    def predict(self, X: Any) -> NDArray[np.intp]:  # noqa: N803 - scikit-learn's name
        """Return the part of records: shape ``(n,)``; -1 where a value is missing.

        What is computed here from private records is as private as they are.

        Raises
        ------
        ConfigError
            Parts were given.
        TableError
            The columns are not those of the fit.
        """
        self._require_fitted()
        if self.parts is not None:
            raise ConfigError(
                "were not found but given",
                field="parts",
                fix="use the rule that made them, or fit with parts=None",
            )
        rows = read_rows(X)
        self._require_columns(rows.shape[1], find_names(X))
        return self.model_.find_parts(rows.astype(np.float64, copy=False))

    # ---- before the records ----

    def _place(self, y: Any, n_records: int) -> NDArray[np.intp] | None:
        if self._finds_parts:
            return None
        return place_labels(None if self.parts is None else y, self._list_parts(), n_records)

    def _draw_sums(
        self, design: NetworkDesign, rows: Floats, places: NDArray[np.intp] | None
    ) -> Integers:
        rng = np.random.default_rng(design.seed)
        return design.release(rows, places, SystemSource(), rng)

    def _find_variance(self, design: NetworkDesign) -> float:
        del design
        return math.nan

    def _draw_records(
        self, n: int, rng: np.random.Generator, parts: list[int] | None
    ) -> tuple[Floats, NDArray[np.intp]]:
        return self.model_.draw(n, rng, parts=parts, binary=self.binary)

    def _list_events(
        self, design: NetworkDesign, public: Mapping[str, Any]
    ) -> tuple[PrivacyEvent, ...]:
        guarantee = PrivacyGuarantee(
            epsilon=design.epsilon, delta=design.delta, neighbouring=design.relation
        )
        event = make_event(public, guarantee, relation=design.relation, stream=self._name_fit())
        return (event,)

    @property
    def _finds_parts(self) -> bool:
        return self.parts is None and self._count_parts() > 1

    def _count_parts(self) -> int:
        if self.parts is not None:
            if self.n_parts != 1:
                raise ConfigError(
                    "cannot be combined with parts, whose number is theirs",
                    field="n_parts",
                    fix="leave one of both out",
                )
            return len(read_parts(self.parts))
        return read_whole(self.n_parts, "n_parts", most=MOST_PARTS, fix="use some ten")

    def _list_parts(self) -> list[Any]:
        return list(range(self._count_parts())) if self.parts is None else read_parts(self.parts)

    def _design(self, names: Sequence[str]) -> NetworkDesign:
        design = self._make_design(names)
        # Noise that cannot be drawn is refused here, before anything is counted.
        _ = design.rule.gradient_noise, design.rule.count_noise, design.sizes_noise
        return design

    def _make_design(self, names: Sequence[str]) -> NetworkDesign:
        epsilon, delta, lower, upper = self._read_terms(names)
        if self.network == "rbm" and not self.binary:
            raise ConfigError(
                "draws zeros and ones only",
                field="network",
                fix="set binary=True if the columns hold 0 or 1, or use vae",
            )
        quantiser = Quantiser.from_bounds(lower, upper)
        seed = hashlib.sha256((read_seed(self.public_seed) or "").encode()).digest()
        return NetworkDesign(
            quantiser=quantiser,
            n_parts=self._count_parts(),
            partition=self._make_partition(quantiser, seed) if self._finds_parts else None,
            share_of_parts=read_number(self.share_for_parts, "share_for_parts"),
            network=self.network,
            n_hidden=_read(self.n_hidden, "n_hidden", MOST_FEATURES),
            n_latent=_read(self.n_latent, "n_latent", MOST_FEATURES // 2),
            clipping=Clipping(
                rule=self.clipping, norm=_read_float(self.clipping_norm, "clipping_norm")
            ),
            rate=_read_chance(self.batch_rate),
            n_steps=_read(self.n_steps, "n_steps", MOST_STEPS),
            learning_rate=_RATES.get(self.network, 0.02)
            if self.learning_rate is None
            else _read_float(self.learning_rate, "learning_rate"),
            relation=self.relation,
            epsilon=epsilon,
            delta=delta,
            seed=int.from_bytes(seed[:8], "little"),
        )

    def _make_partition(self, quantiser: Quantiser, seed: bytes) -> KernelPartition:
        d = quantiser.n_dimensions
        bandwidth = 0.5 * math.sqrt(d) if self.bandwidth is None else self.bandwidth
        features = FeatureMap.draw(
            quantiser,
            n_features=2
            * (_read(self.n_kernel_features, "n_kernel_features", _MOST_KERNEL_FEATURES) // 2),
            bandwidth=_read_float(bandwidth, "bandwidth"),
            seed=seed,
        )
        start = None
        if self.start is not None:
            points = np.asarray(self.start, dtype=np.float64)
            if points.shape != (self._count_parts(), d) or not np.isfinite(points).all():
                raise ConfigError(
                    f"must have shape ({self._count_parts()}, {d}) and finite values",
                    field="start",
                    fix="pass one public record for each part",
                )
            start = features.compute(quantiser.quantise(points)[0]).astype(np.int64)
        return KernelPartition(
            features=features,
            n_parts=self._count_parts(),
            n_rounds=_read(self.n_rounds, "n_rounds", _MOST_ROUNDS),
            start=start,
            seed=int.from_bytes(seed[8:16], "little"),
        )

    def _publish(self, design: NetworkDesign, names: Sequence[str]) -> dict[str, Any]:
        parts = [str(part) for part in self._list_parts()]
        return {**design.public, "parts": parts, "names": list(names), "binary": bool(self.binary)}

    # ---- after the release ----

    def _read_release(
        self, names: Sequence[str], public: Mapping[str, Any], sums: Integers
    ) -> tuple[float, Sequence[PrivacyEvent]]:
        design = self._make_design(names)
        if any(public[key] != value for key, value in design.stated.items()):
            raise ValueError
        if sums.shape != (design.n_centroids + design.n_parts * (1 + design.n_weights),):
            raise ValueError
        return math.nan, self._list_events(design, public)

    def _show(self, names: Sequence[str]) -> None:
        design = self._make_design(names)
        # As it was calibrated: another version of the accounting may find another one.
        self.multiplier_ = float(self.release_.design["multiplier"])
        self.model_ = design.read(self.release_.sums)
        self.parts_ = self._list_parts()
        self.part_sizes_ = self.model_.sizes


def _read(value: object, field: str, most: int) -> int:
    return read_whole(value, field, most=most, fix="choose another number")


def _read_float(value: object, field: str) -> float:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number:
        raise ConfigError("must be a number", field=field, fix="choose a positive one")
    return float(value)  # type: ignore[arg-type]


def _read_chance(rate: object) -> Fraction:
    value = _read_float(rate, "batch_rate")
    if not 0.0 < value <= 1.0:
        raise ConfigError(
            "must be above 0 and at most 1",
            field="batch_rate",
            fix="use 0.05 to 0.2; it is the chance of a record to be in a batch",
        )
    return read_rate(value)
