"""Sums, counts and squares of clusters: what one record can change in them, as integers."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.shared.errors import PrivacyError
from sfumato.shared.privacy.sensitivity import require_neighbouring


@dataclass(frozen=True, kw_only=True)
class ClusterSums:
    """Sums of d integers and a scaled count, of bodies of which a record is in at most one.

    A record adds ``(x, w)`` to the body that it is in, with ``|x_i| <= R``; which one that is may
    depend on the record and on what was released before. Under *replace-one* it moves from one
    body to another, or inside one; under *add-remove-one* it comes or goes.

    Parameters
    ----------
    n_dimensions
        d.
    radius
        R, the largest magnitude of a coordinate of x.
    count_unit
        w, the factor of the count.

    Raises
    ------
    PrivacyError
        A number is below 1.
    """

    n_dimensions: int
    radius: int
    count_unit: int

    def __post_init__(self) -> None:
        for field in ("n_dimensions", "radius", "count_unit"):
            if getattr(self, field) < 1:
                raise PrivacyError(
                    "must be at least 1", field=field, fix="take it from the method's task"
                )

    def measure_cubes(self, neighbouring: str) -> int:
        """Bound the sum over bodies of the largest change of a coordinate.

        Between two bodies each changes by ``max(R, w)``; inside one the sums change by 2 R and the
        count not at all.
        """
        require_neighbouring(neighbouring)
        most = max(self.radius, self.count_unit)
        return most if neighbouring == "add-remove-one" else 2 * most

    def measure_l1(self, neighbouring: str) -> int:
        """Bound the L1 distance, ``d R + w`` for each body that changes."""
        require_neighbouring(neighbouring)
        one = self.n_dimensions * self.radius + self.count_unit
        return one if neighbouring == "add-remove-one" else 2 * one

    def measure_l2_squared(self, neighbouring: str) -> int:
        """Bound the squared L2 distance.

        Between two bodies ``2 d R^2 + 2 w^2``, inside one ``4 d R^2``: a count with
        ``w^2 <= d R^2`` is free under replace-one.
        """
        require_neighbouring(neighbouring)
        one = self.n_dimensions * self.radius**2
        if neighbouring == "add-remove-one":
            return one + self.count_unit**2
        return max(4 * one, 2 * one + 2 * self.count_unit**2)


@dataclass(frozen=True, kw_only=True)
class CellMoments:
    """A scaled count, sums and a square of cells of which a record is in at most one.

    A record adds ``(w, x, y)`` to the cell that it is in: ``|x| <= B`` in Euclidean length, and
    ``0 <= y <= Q``. Which cell that is may depend on the record and on what was released before.

    Parameters
    ----------
    count_unit, length, square
        w, B and Q; Q is 0 where no squares are released.

    Raises
    ------
    PrivacyError
        A number is out of range.
    """

    count_unit: int
    length: int
    square: int

    def __post_init__(self) -> None:
        for field, least in (("count_unit", 1), ("length", 1), ("square", 0)):
            if getattr(self, field) < least:
                raise PrivacyError(
                    f"must be at least {least}", field=field, fix="take it from the method's task"
                )

    def measure_l2_squared(self, neighbouring: str) -> int:
        """Bound the squared L2 distance.

        One cell changes by ``w^2 + B^2 + Q^2``. Under replace-one two cells change so, or one by
        ``(0, x - x', y - y')``, at most ``4 B^2 + Q^2``.
        """
        require_neighbouring(neighbouring)
        one = self.count_unit**2 + self.length**2 + self.square**2
        if neighbouring == "add-remove-one":
            return one
        return max(2 * one, 4 * self.length**2 + self.square**2)
