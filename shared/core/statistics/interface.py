"""Interface of the statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sfumato.shared.arrays import Integers
from sfumato.shared.core.encoder import RecordEncoder, encode_parts
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.records import Records
from sfumato.shared.errors import PrivacyError

if TYPE_CHECKING:
    from sfumato.shared.core.engines import SketchEngine

NEIGHBOURINGS = ("replace-one", "add-remove-one")


def require_neighbouring(neighbouring: str) -> None:
    """Refuse a relation that is not one of ``NEIGHBOURINGS`` with a ``PrivacyError``."""
    if neighbouring not in NEIGHBOURINGS:
        raise PrivacyError(
            f"must be one of {', '.join(NEIGHBOURINGS)}",
            field="neighbouring",
            fix="use replace-one to hide values, add-remove-one to hide presence too",
        )


def count_records_moved(neighbouring: str) -> int:
    """Return how many records differ between neighbours that both hold all other records.

    Two under ``replace-one``: one goes, another comes. One under ``add-remove-one``.
    """
    require_neighbouring(neighbouring)
    return 2 if neighbouring == "replace-one" else 1


@dataclass(frozen=True, kw_only=True, eq=False)
class PlainStatistic:
    """A statistic without frequencies, which engines add up from coordinates or columns.

    Parameters
    ----------
    quantiser
        Quantiser of the coordinates of a record.
    encoder
        Columns to coordinates; None if they are the same.
    """

    quantiser: Quantiser
    encoder: RecordEncoder | None = None

    def add_records(
        self, records: Records, *, first_record: int, sums: Integers, engine: SketchEngine
    ) -> int:
        """Add the integers of each record; see ``Statistic``."""
        return sum(
            engine.add(part, self, sums=sums)
            for _, part in encode_parts(self.encoder, records, first_record)
        )

    def sum_records(self, records: Records, sums: Integers) -> int:
        """Add the integers of each record to ``sums`` in place: the definition in NumPy.

        Returns
        -------
        int
            Number of records that could not be sketched and added zero.

        Raises
        ------
        RecordError
            Wrong shape or type; ``sums`` is unchanged.
        """
        raise NotImplementedError


class CountingStatistic(PlainStatistic):
    """Bounds and sensitivities of a statistic whose records add 1 in some places, 0 elsewhere."""

    @property
    def n_counted(self) -> int:
        """The number of places that each record adds 1 to."""
        return 1

    @property
    def lowest(self) -> int:
        """The least count of a record, 0."""
        return 0

    @property
    def highest(self) -> int:
        """The largest count of a record, 1."""
        return 1

    def measure_l1(self, neighbouring: str) -> int:
        """Return the L1 sensitivity: the places of each record that comes or goes."""
        return count_records_moved(neighbouring) * self.n_counted

    def measure_l2_squared(self, neighbouring: str) -> int:
        """Return the squared L2 sensitivity; every change is by 1, so it is that in L1."""
        return self.measure_l1(neighbouring)


class Statistic(Protocol):
    """The integers that each record adds to a sum, determined by public numbers alone.

    Guarantees
    ----------
    What a record adds depends on its own values and its counter, and on no other record.
    """

    @property
    def n_coordinates(self) -> int:
        """The number of integers in a sum."""
        ...

    @property
    def identity(self) -> bytes:
        """A digest that two statistics share only if their sums can be merged."""
        ...

    @property
    def lowest(self) -> int:
        """No record adds less than this to a coordinate; at most 0."""
        ...

    @property
    def highest(self) -> int:
        """No record adds more than this to a coordinate; at least 1."""
        ...

    def add_records(
        self, records: Records, *, first_record: int, sums: Integers, engine: SketchEngine
    ) -> int:
        """Add the integers of each record to ``sums`` in place.

        Parameters
        ----------
        records
            Shape ``(n, d)``, float32 or float64, data units, any strides; or as columns.
        first_record
            The counter of the first record.
        sums
            Shape ``(n_coordinates,)``, int64, contiguous.
        engine
            How to compute; changes no result.

        Returns
        -------
        int
            Number of records that could not be sketched and added zero.

        Raises
        ------
        RecordError
            Wrong shape or type; ``sums`` is unchanged.
        """
        ...
