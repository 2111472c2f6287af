"""A mixture of generative networks: a private partition, then a private training for each part.

After Acs, Melis, Castelluccia and De Cristofaro (2017), with what is wrong there put right: batch
rate and steps are public and equal for all parts, sizes are used with noise only, and the loss is
composed exactly. A record is in one part, so it pays for the partition and for one training.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.generative.accounting import RATE_UNIT, Training, compute_mu
from sfumato.lab.generative.networks.clipping import NORM, Clipping
from sfumato.lab.generative.networks.fixed_point import AHEAD, MOST_FEATURES
from sfumato.lab.generative.networks.network import Network
from sfumato.lab.generative.networks.rbm import BoltzmannMachine
from sfumato.lab.generative.networks.training import (
    TrainingRule,
    count_weights,
    make_noise,
    split,
    train,
)
from sfumato.lab.generative.networks.vae import VariationalAutoencoder
from sfumato.lab.generative.partition import KernelPartition, assign
from sfumato.lab.generative.wide_gaussian import WideGaussian
from sfumato.shared.arrays import Floats, Integers
from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.errors import ConfigError
from sfumato.shared.privacy.samplers import RandomSource

NETWORKS: Final = ("vae", "rbm")
MOST_PARTS: Final = 1000
SHARE_OF_SIZES: Final = Fraction(1, 200)
"""The share of the squared mu of the whole that the sizes of the parts get."""
_SIZE: Final = 1 << 12
"""One record, in the released sizes, so that whole noise is fine enough."""
_TOLD: Final = 4.0
"""A part with fewer records than so many standard deviations of its size is taken for empty."""
_DRAWN_AT_ONCE: Final = 1 << 12


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkDesign:
    """All that is decided before a record is read.

    Parameters
    ----------
    quantiser
        Quantiser of records, with the public bounds.
    n_parts
        k.
    partition
        How parts are found with noise; None where they are known, or follow from a public rule.
    share_of_parts
        The share of the squared mu of the whole that finding them gets.
    network, n_hidden, n_latent
        ``vae`` or ``rbm``, and its sizes.
    clipping
        Clipping of gradients.
    rate, n_steps, learning_rate
        Sampling rate, steps and learning rate of every training.
    relation
        ``replace-one`` or ``add-remove-one``.
    epsilon, delta
        Epsilon and delta of everything together, exact.

    Raises
    ------
    ConfigError, PrivacyError
        A number is out of range, or the library for accounting is not installed.
    """

    quantiser: Quantiser
    n_parts: int
    partition: KernelPartition | None
    share_of_parts: Fraction
    network: str
    n_hidden: int
    n_latent: int
    clipping: Clipping
    rate: Fraction
    n_steps: int
    learning_rate: float
    relation: str
    epsilon: Fraction
    delta: Fraction
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, most in (
            ("n_parts", self.n_parts, MOST_PARTS),
            ("n_hidden", self.n_hidden, MOST_FEATURES),
            ("n_latent", self.n_latent, MOST_FEATURES // 2),
            ("n_features", self.quantiser.n_dimensions, MOST_FEATURES),
        ):
            if not 1 <= value <= most:
                raise ConfigError(
                    f"must be from 1 to {most}", field=name, fix="choose another number"
                )
        if self.network not in NETWORKS:
            raise ConfigError(
                f"must be one of {', '.join(NETWORKS)}", field="network", fix="use vae"
            )
        if not 0.0 < self.learning_rate < 1.0:
            raise ConfigError(
                "must be above 0 and below 1", field="learning_rate", fix="use 0.005 to 0.02"
            )
        if not 0 < self.share_of_parts < 1:
            raise ConfigError(
                "must be above 0 and below 1", field="share_for_parts", fix='use "1/4"'
            )

    @cached_property
    def whole_mu(self) -> float:
        """The mu of one Gaussian mechanism for the whole budget, which stages have shares of."""
        epsilon, delta = self.epsilon, self.delta
        if self.relation == "replace-one":
            epsilon = epsilon / 2
            delta = delta / (1 + Fraction(math.exp(float(epsilon))))
        return compute_mu(epsilon, delta)

    @property
    def sizes_noise(self) -> WideGaussian:
        """Noise of the sizes."""
        return make_noise(_SIZE, 1.0 / (self.whole_mu * math.sqrt(SHARE_OF_SIZES)))

    @property
    def rounds_noise(self) -> WideGaussian:
        """Noise of each round of the partition."""
        assert self.partition is not None
        share = float(self.share_of_parts / self.partition.n_rounds)
        distance = math.sqrt(self.partition.squared_distance)
        return make_noise(distance, 1.0 / (self.whole_mu * math.sqrt(share)))

    @cached_property
    def training(self) -> Training:
        """The cost of a record, but for the noise of the training."""
        share = SHARE_OF_SIZES + (0 if self.partition is None else self.share_of_parts)
        return Training(
            first_mu=self.whole_mu * math.sqrt(share),
            rate=self.rate,
            n_steps=self.n_steps,
            relation=self.relation,
        )

    @cached_property
    def rule(self) -> TrainingRule:
        """How every network is trained; the noise is calibrated here."""
        return TrainingRule(
            clipping=self.clipping,
            rate=self.rate,
            n_steps=self.n_steps,
            multiplier=self.training.calibrate_multiplier(self.epsilon, self.delta),
            learning_rate=self.learning_rate,
        )

    def make_network(self) -> Network:
        """Make a network without weights."""
        d, h = self.quantiser.n_dimensions, self.n_hidden
        if self.network == "rbm":
            return BoltzmannMachine(n_features=d, n_hidden=h)
        return VariationalAutoencoder(n_features=d, n_hidden=h, n_latent=self.n_latent)

    @property
    def n_weights(self) -> int:
        """Weights of one network."""
        return count_weights(self.make_network())

    @property
    def n_centroids(self) -> int:
        """Numbers of all centroids; 0 where parts are known."""
        return 0 if self.partition is None else self.n_parts * self.partition.features.n_features

    @property
    def public(self) -> dict[str, Any]:
        """Return the choices behind the release: numbers, texts and lists."""
        rule = self.rule
        return {
            **self.stated,
            "multiplier": rule.multiplier,
            "gradients": {
                "sigma_squared": rule.gradient_noise.variance,
                "squared_distance": NORM**2,
            },
        }

    @property
    def stated(self) -> dict[str, Any]:
        """Return the choices whose noise needs no library for accounting."""
        lower = self.quantiser.centre - self.quantiser.half_width
        upper = self.quantiser.centre + self.quantiser.half_width
        stage = self.partition
        return {
            "method": "mixture of networks",
            "lower": lower.tolist(),
            "upper": upper.tolist(),
            "n_parts": self.n_parts,
            "partition": None
            if stage is None
            else {
                "frequencies": stage.features.frequencies.digest,
                "n_rounds": stage.n_rounds,
                "share": self.share_of_parts,
                "sigma_squared": self.rounds_noise.variance,
                "squared_distance": stage.squared_distance,
                "start": None if stage.start is None else stage.start.tolist(),
            },
            "sizes": {"sigma_squared": self.sizes_noise.variance, "squared_distance": _SIZE**2},
            "network": self.network,
            "n_hidden": self.n_hidden,
            "n_latent": self.n_latent,
            "clipping": {"rule": self.clipping.rule, "norm": self.clipping.norm},
            "batch_rate": self.rate,
            "n_steps": self.n_steps,
            "learning_rate": self.learning_rate,
            "relation": self.relation,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "seed": self.seed,
        }

    # ---- release ----

    def release(
        self,
        records: Floats,
        places: NDArray[np.intp] | None,
        source: RandomSource,
        rng: np.random.Generator,
    ) -> Integers:
        """Release centroids if parts are to be found, sizes, and weights: one row of integers.

        Parameters
        ----------
        records
            Shape ``(n, d)``, data units; a record with a missing value adds nothing.
        places
            Shape ``(n,)``: the part of each record, 0 to k - 1, or anything else for none; None
            where parts are to be found.
        source
            Source of batches and of noise.
        rng
            Generator of choices that no record has a part in.
        """
        steps, is_whole = self.quantiser.quantise(records)
        steps = steps[is_whole]
        centroids = np.zeros(0, dtype=np.int64)
        if self.partition is not None:
            features = self.partition.features.compute(steps)
            noise = self.rounds_noise
            found = self.partition.release(
                features,
                lambda sums: sums + noise.draw(source, sums.size),
                math.sqrt(noise.variance),
            )
            parts = assign(features, found)
            centroids = found.ravel()
        else:
            assert places is not None
            parts = places[is_whole]
        counts = np.array([np.count_nonzero(parts == i) for i in range(self.n_parts)])
        noisy = _SIZE * counts + self.sizes_noise.draw(source, self.n_parts)
        trained = [np.zeros((0,), dtype=np.int64)]
        sizes = self.read_sizes(noisy)
        for i in range(self.n_parts):
            trained.append(self._train_part(steps[parts == i], float(sizes[i]), source, rng))
        return np.concatenate([centroids, noisy, *trained]).astype(np.int64)

    def _train_part(
        self,
        steps: NDArray[np.int16],
        size: float,
        source: RandomSource,
        rng: np.random.Generator,
    ) -> Integers:
        if size == 0.0:
            # Decided by a released number. Nothing is ever drawn from such a part.
            return np.zeros(self.n_weights, dtype=np.int64)
        # 0 to 64, and exactly these ends for the bounds.
        whole = np.rint((steps.astype(np.float64) + STEPS) * (AHEAD / (2 * STEPS)))
        network = self.make_network()
        weights = train(network, whole, self.rule, size=size, source=source, rng=rng)
        return np.concatenate([each.ravel() for each in weights])

    # ---- post-processing ----

    def read_sizes(self, noisy: Integers) -> Floats:
        """Return sizes of parts from released numbers; 0 for a part that noise hides."""
        told = _TOLD * math.sqrt(self.sizes_noise.variance)
        return np.where(noisy < told, 0.0, noisy / _SIZE)

    def read(self, released: Integers) -> NetworkMixtureModel:
        """Return the networks of a release."""
        centroids, rest = np.split(released, [self.n_centroids])
        noisy, rest = np.split(rest, [self.n_parts])
        network = self.make_network()
        return NetworkMixtureModel(
            sizes=self.read_sizes(noisy),
            network=network,
            weights=tuple(tuple(split(row, network)) for row in rest.reshape(self.n_parts, -1)),
            centroids=centroids.reshape(self.n_parts, -1) if len(centroids) else None,
            partition=self.partition,
            quantiser=self.quantiser,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkMixtureModel:
    """A network for each part.

    Parameters
    ----------
    sizes
        Shape ``(k,)``: records of each part, with noise; 0 for a part that noise hides.
    network
        All of them, without weights.
    weights
        Weights of each part and layer, whole steps of 2^-16.
    centroids, partition
        Shape ``(k, D)``, and what they are compared with; None where parts are known.
    quantiser
        Between data units and the networks' units.
    """

    sizes: Floats
    network: Network
    weights: tuple[tuple[Floats, ...], ...]
    centroids: Integers | None
    partition: KernelPartition | None
    quantiser: Quantiser

    def draw(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        parts: Sequence[int] | None = None,
        binary: bool = False,
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Draw n records, data units, and their parts: shapes ``(n, d)`` and ``(n,)``.

        Parameters
        ----------
        parts
            The part of each record; None to draw them by their sizes.
        binary
            Whether values are chances, and one of the two ends of the bounds is drawn.
        """
        chosen = (
            rng.choice(len(self.sizes), size=n, p=self.sizes / self.sizes.sum())
            if parts is None
            else np.asarray(parts, dtype=np.intp)
        )
        lower = self.quantiser.centre - self.quantiser.half_width
        records = np.empty((n, self.quantiser.n_dimensions))
        for part in np.unique(chosen):
            places = np.flatnonzero(chosen == part)
            for start in range(0, len(places), _DRAWN_AT_ONCE):
                some = places[start : start + _DRAWN_AT_ONCE]
                values = self.network.draw(self.weights[part], len(some), rng)
                if binary:
                    values = (rng.random(values.shape) < values).astype(np.float64)
                records[some] = lower + 2.0 * self.quantiser.half_width * values
        return records, chosen

    def find_parts(self, records: Floats) -> NDArray[np.intp]:
        """Return the part of records, shape ``(n, d)``: shape ``(n,)``, -1 where a value misses."""
        steps, is_whole = self.quantiser.quantise(records)
        found = np.zeros(len(steps), dtype=np.intp)
        if self.partition is not None and self.centroids is not None:
            found = assign(self.partition.features.compute(steps), self.centroids)
        return np.where(is_whole, found, -1)


def read_rate(rate: float) -> Fraction:
    """Return a chance as the nearest multiple of 2^-32."""
    return Fraction(round(rate * RATE_UNIT), RATE_UNIT)
