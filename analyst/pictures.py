"""Figures that a notebook shows."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that a notebook shows as it is: matplotlib shows those of pyplot alone."""

    def __init__(self, *, figsize: tuple[float, float]) -> None:
        super().__init__(figsize=figsize, layout="constrained", facecolor="white")

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()
