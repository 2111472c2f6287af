"""The layout of a study's payloads, and the places of their coordinates in sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.shared.plan import SketchPlan
from sfumato.shared.wire import PayloadForm


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """The layout that a plan gives to what is added to the cells: sketches, or totals of batches.

    Parameters
    ----------
    form
        How a payload is read.
    n_features
        Coordinates of a payload that are features; a noised number of records may follow.
    places
        Where the coordinates of each block's payload are added: shape ``(B, n_coordinates)``.
    is_batched
        Whether totals of batches are added, and no single sketch.
    """

    form: PayloadForm
    n_features: int
    places: NDArray[np.int64]
    is_batched: bool = False

    @classmethod
    def of(cls, plan: SketchPlan) -> Layout:
        """Return the layout of a plan.

        A sum has the coordinates of the statistic, and then the noised numbers of records of all
        blocks where they are secret.
        """
        places = plan.places
        if plan.releases_count:
            counts = places.size + np.arange(len(places))
            places = np.concatenate([places, counts[:, None]], axis=1)
        # The total of a batch is clear: only single reports of a secure sum are masked.
        form = replace(PayloadForm.of(plan), is_masked=False)
        return cls(
            form=form,
            n_features=plan.n_features,
            places=places,
            is_batched=plan.sum_release is not None,
        )

    @property
    def n_coordinates(self) -> int:
        """Coordinates of a payload."""
        return int(self.places.shape[1])

    @property
    def n_blocks(self) -> int:
        """Blocks of features, of which a payload has one."""
        return int(self.places.shape[0])

    @cached_property
    def n_totals(self) -> int:
        """Coordinates of a sum over sketches of all blocks."""
        return int(self.places.size)

    @property
    def empty_payload(self) -> bytes:
        """A payload of zeros, in the place of a dropped one."""
        return bytes(self.form.length)

    def spread(self, blocks: NDArray[np.int64], sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Put payloads at the places of their blocks.

        Parameters
        ----------
        blocks, sums
            Shapes ``(n,)`` and ``(n, n_coordinates)``.

        Returns
        -------
        NDArray
            Shape ``(n, n_totals)``; 0 elsewhere.
        """
        if self.n_blocks == 1:
            return sums
        whole = np.zeros((len(sums), self.n_totals), dtype=np.int64)
        np.put_along_axis(whole, self.places[blocks], sums, axis=1)
        return whole
