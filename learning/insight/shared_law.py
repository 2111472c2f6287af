"""Null laws of many pairs of selections under one model, from draws that all pairs share.

In the eigenbasis of the covariance of one record, the covariance of a difference is diagonal within
each block of features, whatever the numbers of records and sketches. So one decomposition serves
all pairs. The errors of a pair are a sum of a few components of known scale: the noise of either
side, sampling, and a secret number of records. Draws of unit components are made once; the
statistics of a pair are quadratic forms of them.

The directed statistic needs a covariance to look through. It is that of the pair to within a
quarter, so that alike pairs share a statistic. P-values are right all the same: the null law is
that of the statistic that is used, with the scales of the pair itself.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sfumato.learning.insight.covariance import Floats
from sfumato.learning.insight.model import StudyModel
from sfumato.learning.insight.null_law import draw_sampling, draw_unit_noise
from sfumato.learning.insight.selection import Errors, SelectionMean
from sfumato.learning.insight.statistics import PRIOR, RIDGE, trusts_directions
from sfumato.learning.insight.tails import NullDraws, SmallestDraws

__all__ = ["PairLaw", "PairStatistics", "SharedDraws"]

Singles = NDArray[np.float32]

_Key = tuple[str, int, tuple[float, ...]]
"""Name of a component; and for the exact noise of few sketches, the side and their shares."""
_NOISES: Final = frozenset({"exact", "gaussian"})
_STEP: Final = math.log(1.5)
"""Scales of covariances are rounded to powers of 1.5 for the directed statistic."""
_MOST_VIEWS: Final = 4
_MOST_NOISES: Final = 6


@dataclass(frozen=True, eq=False)
class _Block:
    """The features of one block in the eigenbasis of one record's covariance."""

    places: NDArray[np.int64]
    variances: Floats
    vectors: Floats
    jacobian: Floats
    phi: Floats
    energy_per_shift: float

    @classmethod
    def of(cls, model: StudyModel, members: NDArray[np.int64]) -> _Block:
        places = np.concatenate([members, model.plan.n_frequencies + members])
        values, vectors = np.linalg.eigh(model.covariance[np.ix_(places, places)])
        return cls(
            places=places,
            variances=np.maximum(values, 0.0),
            vectors=vectors,
            jacobian=model.jacobian[:, places] @ vectors,
            phi=model.features[places] @ vectors,
            energy_per_shift=float(np.sum(model.shift_energies[members])),
        )


@dataclass(frozen=True)
class _Scales:
    """Variances of the components of a pair's errors in one block."""

    noise: float
    sampling: float
    counting: float

    @property
    def is_known(self) -> bool:
        """Whether both sides have records in the block."""
        return self.noise > 0.0

    def round(self) -> _Scales:
        """Round each to a power of 1.5."""
        return _Scales(*(_round(each) for each in (self.noise, self.sampling, self.counting)))


def _round(value: float) -> float:
    return math.exp(_STEP * round(math.log(value) / _STEP)) if value > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class _View:
    """The directed statistic under a rounded covariance, and draws of components seen by it.

    Parameters
    ----------
    roots
        R of each block with ``T_moved = |sum_b R_b D_b|^2``: shape ``(p, 2 r)``.
    turn
        From ``sum_b R_b D_b`` to the changes: shape ``(p, p)``.
    emphasis
        Weights of squared coordinates in the energy that noise alone would have: shape ``(2 r,)``.
    """

    roots: tuple[Floats, ...]
    turn: Floats
    emphasis: tuple[Floats, ...]
    seen: dict[tuple[int, _Key], Singles] = field(default_factory=dict)
    energies: dict[tuple[int, _Key, _Key], Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """The statistics of differences of one pair, in the coordinates of :class:`SharedDraws`."""

    blocks: tuple[_Block, ...]
    scales: tuple[_Scales, ...]
    view: _View

    @cached_property
    def errors(self) -> Floats:
        """Standard errors of the changes where nothing has changed: shape ``(p,)``."""
        total = np.zeros(len(self.view.turn))
        for block, scales, root in zip(self.blocks, self.scales, self.view.roots, strict=True):
            gain = self.view.turn @ root
            total += gain**2 @ (scales.sampling * block.variances + scales.noise)
            total += scales.counting * (gain @ block.phi) ** 2
        return np.sqrt(total)

    @property
    def energy_per_shift(self) -> float:
        """Q, the squared difference that a common shift causes, of the blocks that count."""
        pairs = zip(self.blocks, self.scales, strict=True)
        return sum(block.energy_per_shift for block, scales in pairs if scales.is_known)

    @property
    def places(self) -> NDArray[np.int64]:
        """The coordinates that count."""
        pairs = zip(self.blocks, self.scales, strict=True)
        return np.concatenate([block.places for block, scales in pairs if scales.is_known])

    def measure_all(self, differences: Floats) -> Floats:
        """Compute T_all of differences of shape ``(n, 2 m)``: shape ``(n,)``."""
        energies: Floats = np.einsum("nj,nj->n", differences, differences)
        return energies

    def estimate_changes(self, differences: Floats) -> Floats:
        """Estimate the changes of differences of shape ``(n, 2 m)``: shape ``(n, p)``."""
        changes: Floats = self._project(differences) @ self.view.turn.T
        return changes

    def measure_moved(self, differences: Floats) -> Floats:
        """Compute T_moved of differences of shape ``(n, 2 m)``: shape ``(n,)``."""
        moved: Floats = np.sum(self._project(differences) ** 2, axis=1)
        return moved

    def measure_single(self, differences: Floats) -> Floats:
        """Compute T_single of differences of shape ``(n, 2 m)``: shape ``(n,)``."""
        scores = np.abs(self.estimate_changes(differences)) / self.errors
        single: Floats = np.max(scores, axis=1)
        return single

    def measure_sampling(self) -> float:
        """Compute what sampling adds to the mean of T_moved where nothing has changed."""
        return sum(
            scales.sampling * float(np.sum(root**2 @ block.variances))
            for block, scales, root in zip(self.blocks, self.scales, self.view.roots, strict=True)
        )

    def measure_quiet(self, differences: Floats) -> Floats:
        """Compute the energy where noise outweighs sampling: shape ``(n,)``."""
        energy: Floats = np.sum(
            [
                differences[:, block.places] ** 2 @ emphasis
                for block, emphasis in zip(self.blocks, self.view.emphasis, strict=True)
            ],
            axis=0,
        )
        return energy

    def measure_variance(self, difference: Floats) -> tuple[float, float]:
        """Compute ``D' Sigma D`` and ``tr Sigma^2`` of a difference of shape ``(2 m,)``."""
        crossed = squares = 0.0
        for block, scales in zip(self.blocks, self.scales, strict=True):
            own, phi = difference[block.places], block.phi
            variances = scales.sampling * block.variances + scales.noise
            crossed += float(own**2 @ variances + scales.counting * (own @ phi) ** 2)
            squares += float(
                np.sum(variances**2)
                + 2.0 * scales.counting * (phi**2 @ variances)
                + (scales.counting * (phi @ phi)) ** 2
            )
        return crossed, squares

    def _project(self, differences: Floats) -> Floats:
        projected: Floats = np.sum(
            [
                differences[:, block.places] @ root.T
                for block, root in zip(self.blocks, self.view.roots, strict=True)
            ],
            axis=0,
        )
        return projected


@dataclass(frozen=True, kw_only=True, eq=False)
class PairLaw:
    """The statistics of a pair where nothing has changed.

    Parameters
    ----------
    statistics
        For differences in the coordinates of :class:`SharedDraws`.
    all, moved
        Draws of T_all and of T_moved.
    quiet
        Draws of the energy of noise alone, where noise outweighs sampling.
    projected
        Draws of the coordinates whose squares add up to T_moved: shape ``(n_draws, p)``.
    is_directed
        Whether p-values rest on the directed statistics too, see
        :func:`sfumato.learning.insight.statistics.trusts_directions`.
    """

    statistics: PairStatistics
    all: NullDraws
    moved: NullDraws
    quiet: NullDraws
    projected: Singles
    is_directed: bool

    @cached_property
    def _magnitudes(self) -> Singles:
        statistics = self.statistics
        gain = (statistics.view.turn / statistics.errors[:, None]).astype(np.float32)
        magnitudes: Singles = np.abs(self.projected @ gain.T)
        return magnitudes

    @cached_property
    def scores(self) -> NullDraws:
        """Draws of all changes over their standard errors, as magnitudes."""
        return NullDraws(draws=self._magnitudes.ravel().astype(np.float64))

    @cached_property
    def single(self) -> NullDraws:
        """Draws of T_single."""
        return NullDraws(draws=np.max(self._magnitudes, axis=1).astype(np.float64))

    @cached_property
    def smallest(self) -> SmallestDraws:
        """Draws of the smallest of the p-values that count, that of T_all first."""
        laws = (self.all, self.moved, self.single)
        return SmallestDraws(laws=laws if self.is_directed else laws[:1])


class SharedDraws:
    """Draws of unit components of errors, and the null laws of pairs from them.

    Parameters
    ----------
    model
        Model of the study.
    rng, n_draws
        Source and number of the draws.
    prior
        s: standard deviation of a change before the sketches are seen.
    """

    def __init__(
        self, model: StudyModel, *, rng: np.random.Generator, n_draws: int, prior: float = PRIOR
    ) -> None:
        self._model, self._rng, self._n_draws, self._prior = model, rng, n_draws, prior
        self._deviation = math.sqrt(model.plan.released_variance)
        self._blocks = tuple(_Block.of(model, members) for members in model.plan.blocks.members)
        self._views: OrderedDict[object, _View] = OrderedDict()
        self._components: dict[tuple[int, _Key], Singles] = {}
        self._noises: OrderedDict[tuple[int, _Key], Singles] = OrderedDict()
        self._products: dict[tuple[int, _Key, _Key], Floats] = {}

    @cached_property
    def _sampling(self) -> Floats:
        return draw_sampling(self._model, self._n_draws, self._rng)

    def rotate(self, mean: SelectionMean) -> Floats:
        """Return the features of a mean in the eigenbasis of each block: shape ``(2 m,)``."""
        rotated = np.zeros_like(mean.features)
        for block in self._blocks:
            rotated[block.places] = mean.features[block.places] @ block.vectors
        return rotated

    def find_law(self, first: Errors, second: Errors) -> PairLaw:
        """Find the null law of a pair by the errors of its sides.

        Blocks in which there is no error count as absent; differences must be 0 in them.
        """
        both = first + second
        scales = tuple(
            _Scales(*each)
            for each in zip(
                both.noise.tolist(), both.sampling.tolist(), both.counting.tolist(), strict=True
            )
        )
        view = self._find_view(tuple(each.round() for each in scales))
        energies, quiet = np.zeros(self._n_draws), np.zeros(self._n_draws)
        projected = np.zeros((self._n_draws, len(view.turn)), dtype=np.float32)
        for b in range(len(self._blocks)):
            parts = self._list_components(b, first, second, scales[b])
            for i, (key, scale) in enumerate(parts):
                projected += np.float32(scale) * self._see(view, b, key)
                for other, factor in parts[: i + 1]:
                    weight = scale * factor * (1.0 if other == key else 2.0)
                    energies += weight * self._multiply(b, key, other)
                    if key[0] in _NOISES and other[0] in _NOISES:
                        quiet += weight * self._emphasise(view, b, key, other)
        statistics = PairStatistics(self._blocks, scales, view)
        moved = NullDraws(draws=np.einsum("np,np->n", projected, projected).astype(np.float64))
        return PairLaw(
            statistics=statistics,
            all=NullDraws(draws=energies),
            moved=moved,
            quiet=NullDraws(draws=quiet),
            projected=projected,
            is_directed=trusts_directions(
                self._model, sampling=statistics.measure_sampling(), deviation=moved.deviation
            ),
        )

    def describe_key(self, errors: Errors) -> tuple[object, ...]:
        """Return a key that orders pairs so that those that share draws are neighbours."""
        shapes = tuple(factors.size for factors in errors.factors)
        return (shapes, tuple(_round(each) for each in errors.noise.tolist()))

    def _list_components(
        self, b: int, first: Errors, second: Errors, scales: _Scales
    ) -> list[tuple[_Key, float]]:
        """List the components of a block with their standard deviations."""
        parts: list[tuple[_Key, float]] = []
        gaussian = 0.0
        for side, errors in enumerate((first, second)):
            gaussian += float(errors.gaussian[b])
            factors = errors.factors[b]
            norm = float(np.sqrt(factors @ factors))
            if norm:
                shape = tuple(np.round(np.sort(factors / norm), 3).tolist())
                parts.append((("exact", side, shape), norm * self._deviation))
        for name, variance in (
            ("gaussian", gaussian),
            ("sampling", scales.sampling),
            ("counting", scales.counting),
        ):
            if variance > 0.0:
                parts.append(((name, 0, ()), math.sqrt(variance)))
        return parts

    def _find_view(self, rounded: tuple[_Scales, ...]) -> _View:
        if rounded in self._views:
            self._views.move_to_end(rounded)
            return self._views[rounded]
        view = self._make_view(rounded)
        self._views[rounded] = view
        if len(self._views) > _MOST_VIEWS:
            self._views.popitem(last=False)
        return view

    def _make_view(self, rounded: tuple[_Scales, ...]) -> _View:
        n_parameters = len(self._model.jacobian)
        pairs = list(zip(self._blocks, rounded, strict=True))
        variances = [each.sampling * block.variances + each.noise for block, each in pairs]
        counting = sum(each.counting * float(block.phi @ block.phi) for block, each in pairs)
        n_features = sum(block.places.size for block, each in pairs if each.is_known)
        ridge = RIDGE * (sum(float(np.sum(each)) for each in variances) + counting) / n_features
        projections = []
        information = np.zeros((n_parameters, n_parameters))
        for (block, each), own in zip(pairs, variances, strict=True):
            if not each.is_known:
                projections.append(np.zeros_like(block.jacobian))
                continue
            solved = block.jacobian / (own + ridge)
            if each.counting:
                # Sherman and Morrison: a secret number of records adds a matrix of rank one.
                turned = block.phi / (own + ridge)
                along = solved @ block.phi
                factor = each.counting / (1.0 + each.counting * float(block.phi @ turned))
                solved = solved - factor * np.outer(along, turned)
            projections.append(solved)
            information += solved @ block.jacobian.T
        values, vectors = np.linalg.eigh((information + information.T) / 2.0)
        shrunk = 1.0 / np.sqrt(np.maximum(values, 0.0) + 1.0 / self._prior**2)
        root = shrunk[:, None] * vectors.T
        return _View(
            roots=tuple(root @ projection for projection in projections),
            turn=vectors * shrunk,
            emphasis=tuple(
                (each.noise / np.maximum(own, np.finfo(float).tiny)) ** 2
                for own, each in zip(variances, rounded, strict=True)
            ),
        )

    def _draw(self, b: int, key: _Key) -> Singles:
        """Return draws of a unit component of a block: shape ``(n_draws, 2 r)``."""
        cache = self._noises if key[0] == "exact" else self._components
        if (b, key) not in cache:
            cache[b, key] = self._draw_anew(b, key)
            if cache is self._noises and len(self._noises) > _MOST_NOISES * len(self._blocks):
                self._forget(self._noises.popitem(last=False)[0])
        return cache[b, key]

    def _forget(self, place: tuple[int, _Key]) -> None:
        """Drop what was computed from draws that are no longer kept."""
        b, key = place
        self._products = {
            each: value
            for each, value in self._products.items()
            if each[0] != b or key not in each[1:]
        }
        for view in self._views.values():
            view.seen.pop(place, None)
            for each in [each for each in view.energies if each[0] == b and key in each[1:]]:
                del view.energies[each]

    def _draw_anew(self, b: int, key: _Key) -> Singles:
        block, name = self._blocks[b], key[0]
        shape = (self._n_draws, block.places.size)
        if name == "sampling":
            return (self._sampling[:, block.places] @ block.vectors).astype(np.float32)
        if name == "counting":
            return _standard(self._rng, (self._n_draws, 1)) * block.phi.astype(np.float32)
        if name == "gaussian":
            return _standard(self._rng, shape)
        if name == "pool":
            noise = draw_unit_noise(self._model.plan, self._n_draws, self._rng)
            return (noise @ block.vectors).astype(np.float32)
        pool, total = self._draw(b, ("pool", 0, ())), np.zeros(shape, dtype=np.float32)
        for factor in key[2]:
            total += np.float32(factor) * pool[self._rng.permutation(self._n_draws)]
        return total

    def _multiply(self, b: int, key: _Key, other: _Key) -> Floats:
        """Return products of two components of each draw: shape ``(n_draws,)``."""
        place = (b, key, other)
        if place not in self._products:
            self._products[place] = np.einsum(
                "nj,nj->n", self._draw(b, key), self._draw(b, other)
            ).astype(np.float64)
        return self._products[place]

    def _emphasise(self, view: _View, b: int, key: _Key, other: _Key) -> Floats:
        place = (b, key, other)
        if place not in view.energies:
            weighted = self._draw(b, key) * view.emphasis[b].astype(np.float32)
            view.energies[place] = np.einsum("nj,nj->n", weighted, self._draw(b, other)).astype(
                np.float64
            )
        return view.energies[place]

    def _see(self, view: _View, b: int, key: _Key) -> Singles:
        if (b, key) not in view.seen:
            view.seen[b, key] = self._draw(b, key) @ view.roots[b].T.astype(np.float32)
        return view.seen[b, key]


def _standard(rng: np.random.Generator, shape: tuple[int, ...]) -> Singles:
    return rng.standard_normal(shape, dtype=np.float32)
