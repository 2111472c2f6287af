"""Records of a simulated fleet: made up from a mixture, or dealt from a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from sfumato.analyst.sketching.reader import RecordReader, choose_fields
from sfumato.shared.arrays import Floats
from sfumato.shared.core.records import Columns
from sfumato.shared.errors import ConfigError
from sfumato.shared.plan import RecordSpace, SketchPlan
from sfumato.shared.reading import WatchedFile

_APART = 4.0
"""Wanted distance between the centres of a mixture, in scales; less where no room is left."""
_TRIES = 200
_SCALES = 20.0
"""Scales in the box of a plan that states none."""


class FleetRecords(Protocol):
    """The records of all devices, in the order of devices and of time."""

    @property
    def n_records(self) -> int:
        """Records of one device."""
        ...

    def load(self, first: int, last: int) -> Floats:
        """Return the records of the devices ``first .. last - 1``: shape ``(n, q, d)``."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class MixtureRecords:
    """Round clusters of the plan's scales around random centres.

    Parameters
    ----------
    space
        The space of the plan.
    centres, scale, lower, upper
        On its axes: shape ``(k, d')``; the others ``(d',)``.
    n_records
        Records of one device.
    clusters_per_device
        Clusters that one device has records of.
    seed
        The same seed gives the same records, however they are loaded.
    """

    space: RecordSpace
    centres: Floats
    scale: Floats
    lower: Floats
    upper: Floats
    n_records: int
    clusters_per_device: int
    seed: int

    @classmethod
    def of(
        cls,
        plan: SketchPlan,
        *,
        n_clusters: int,
        n_records: int,
        clusters_per_device: int | None,
        seed: int,
    ) -> MixtureRecords:
        """Place the centres of a mixture in the box of a plan.

        Raises
        ------
        ConfigError
            A device cannot have records of more clusters than there are.
        """
        held = n_clusters if clusters_per_device is None else clusters_per_device
        if held > n_clusters:
            raise ConfigError(
                f"must be at most the number of clusters, {n_clusters}",
                field="--clusters-per-device",
                fix="leave it out where every device may have records of all clusters",
            )
        lower = np.array([axis.lower for axis in plan.axes])
        upper = np.array([axis.upper for axis in plan.axes])
        # A histogram needs no scales.
        scale = np.where(np.isnan(plan.scale), (upper - lower) / _SCALES, plan.scale)
        return cls(
            centres=_place(lower, upper, scale, n_clusters, np.random.default_rng(seed)),
            space=plan.space,
            scale=scale,
            lower=lower,
            upper=upper,
            n_records=n_records,
            clusters_per_device=held,
            seed=seed,
        )

    def load(self, first: int, last: int) -> Floats:
        """Return the records of the devices ``first .. last - 1``: shape ``(n, q, d)``."""
        return np.array([self._load_one(device) for device in range(first, last)])

    def _load_one(self, device: int) -> Floats:
        rng = np.random.default_rng((self.seed, device))
        k, d = self.centres.shape
        held = rng.permutation(k)[: self.clusters_per_device]
        of_record = held[rng.integers(len(held), size=self.n_records)]
        spread = self.scale * rng.standard_normal((self.n_records, d))
        points = np.clip(self.centres[of_record] + spread, self.lower, self.upper)
        return self.space.to_records(points)


def _place(
    lower: Floats, upper: Floats, scale: Floats, n_clusters: int, rng: np.random.Generator
) -> Floats:
    """Place centres inside the box, each as far from the others as some tries allow."""
    margin = np.minimum(2.0 * scale, (upper - lower) / 4)
    centres = np.empty((0, lower.size))
    for _ in range(n_clusters):
        tries = rng.uniform(lower + margin, upper - margin, size=(_TRIES, lower.size))
        if not len(centres):
            centres = tries[:1]
            continue
        gaps = (tries[:, None, :] - centres[None, :, :]) / scale
        nearest = np.sqrt(np.sum(gaps**2, axis=2)).min(axis=1)
        far = np.flatnonzero(nearest >= _APART)
        chosen = far[0] if far.size else int(np.argmax(nearest))
        centres = np.vstack([centres, tries[chosen]])
    return centres


@dataclass(frozen=True, kw_only=True, eq=False)
class FileRecords:
    """Records of a file, dealt to devices in the order of the file.

    Parameters
    ----------
    records
        Shape ``(n, d)``, data units; NaN where a value is missing.
    n_records
        Records of one device.
    """

    records: Floats
    n_records: int

    @classmethod
    def read(
        cls, path: Path, plan: SketchPlan, *, n_devices: int, columns: Sequence[str] = ()
    ) -> FileRecords:
        """Read a file whole, and deal its records to devices; what is left over is not used.

        Parameters
        ----------
        columns
            As :func:`sfumato.analyst.sketching.reader.choose_fields` takes them; the plan names all
            others.

        Raises
        ------
        ConfigError, RecordError
            It cannot be read, lacks a dimension of the plan, or has fewer records than devices.
        """
        with WatchedFile(path) as file:
            reader = RecordReader(file, choose_fields(plan.dimensions, columns))
            parts = [
                batch.to_array() if isinstance(batch, Columns) else batch
                for batch in reader.batches(1)
            ]
        records = np.concatenate([np.empty((0, plan.n_dimensions)), *parts])
        if len(records) < n_devices:
            raise ConfigError(
                f"has {len(records):,} records for {n_devices:,} devices",
                field=str(path),
                fix="simulate fewer devices, or leave the file out for made-up records",
            )
        return cls(records=records, n_records=len(records) // n_devices)

    def load(self, first: int, last: int) -> Floats:
        """Return the records of the devices ``first .. last - 1``: shape ``(n, q, d)``."""
        q = self.n_records
        return self.records[first * q : last * q].reshape(last - first, q, -1)
