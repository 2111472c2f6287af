"""Vectors of the statistics: logarithmic scale, bins, cells, clipped records and whole sums.

Doubles that JSON cannot hold exactly, or at all, are hexadecimal text; null is a missing value.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sfumato.shared.core import (
    ClustersStatistic,
    DimensionEncoding,
    FourierStatistic,
    FrequencyBlocks,
    GridStatistic,
    HistogramStatistic,
    MomentsStatistic,
    Quantiser,
    RadiusLaw,
    RecordEncoder,
    SketchAccumulator,
    Statistic,
    draw_frequencies,
)
from sfumato.shared.core.engines import SketchEngine
from sfumato.shared.core.logarithm import compress
from sfumato.shared.core.seeds import WordStream
from sfumato.shared.core.statistics.clusters import Norm, Units

SEED = hashlib.sha256(b"sfumato test vectors, version 1").digest()
N_RECORDS = 100
NORMS: tuple[Norm, ...] = ("l1", "l2")
MAGNITUDES = [
    *(0.0, 5e-324, 2.2250738585072014e-308, 1e-300, 1e-16, 1e-9, 4.1e-7, 1e-6, 2e-6, 3e-6),
    *(7e-6, 1.5e-5, 0.001, 0.1, 0.5, 0.9999999999999999, 1.0, 1.4142135623730951, 2.0, 3.0),
    *(10.0, 123.456, 65535.0, 1e6, 1099511.627776, 1e9, 1e18, 1e100, 1e300, 1.5e302),
    *(1.7976931348623157e308, float("inf")),
]
"""32 of them; with both signs the 64 numbers whose logarithmic scale is given."""

ENCODINGS = (
    DimensionEncoding(),
    DimensionEncoding(resolution=1e-6),
    DimensionEncoding(imputed=1013.25),
    DimensionEncoding(n_levels=3),
)
LOWER: list[float | None] = [-20.0, -1e6, 950.0, None]
UPPER: list[float | None] = [40.0, 1e6, 1050.0, None]


def make_logarithm_vectors() -> list[dict[str, Any]]:
    """Values to the logarithmic scale."""
    x = np.array([sign * value for value in MAGNITUDES for sign in (1.0, -1.0)])
    return [
        {
            "resolution": float(resolution).hex(),
            "x": [value.hex() for value in x.tolist()],
            "t": [value.hex() for value in compress(x, resolution).tolist()],
        }
        for resolution in (1e-6, 1.0, 0.3)
    ]


def _sum(statistic: Statistic, records: np.ndarray, engine: SketchEngine | None) -> list[int]:
    accumulator = SketchAccumulator(statistic, engine=engine)
    accumulator.add(records)
    return [int(value) for value in accumulator.sums]


def _find(statistic: Statistic, values: list[float], engine: SketchEngine | None) -> list[int]:
    """Return the place that each value is counted in."""
    return [_sum(statistic, np.array([[value]]), engine).index(1) for value in values]


def make_bin_vectors(engine: SketchEngine | None = None) -> list[dict[str, Any]]:
    """Values of one dimension to bins: edges of the box and of bins, beyond, missing."""
    edges = [-32767.0, -32766.5, -16384.5, -16384.4, -16383.5, -8192.5, -0.5, 0.5, 1.5, 32767.0]
    near = [np.nextafter(value, side) for value in edges for side in (-np.inf, np.inf)]
    values = [*edges, *map(float, near), 1e300, -1e300, np.inf, -np.inf, np.nan]
    large = [sign * value for value in MAGNITUDES for sign in (1.0, -1.0)]
    cases: list[tuple[str, DimensionEncoding, int, list[float]]] = [
        ("linear", DimensionEncoding(), 1, values),
        ("linear", DimensionEncoding(), 2, values),
        ("linear", DimensionEncoding(), 12, values),
        ("log", DimensionEncoding(resolution=1e-6), 12, [*large, np.nan]),
        ("levels", DimensionEncoding(n_levels=3), 0, [0, 1, 2, 3, -1, -0.0, 0.5, 1e300, np.nan]),
    ]
    vectors = []
    for name, encoding, bits, given in cases:
        bound = 32767.0 if name == "linear" else 2.0**40 * 1e-6
        encoder = RecordEncoder(dimensions=(encoding,))
        box = encoder.transform_bounds([-bound], [bound])
        statistic = HistogramStatistic(
            quantiser=Quantiser.from_bounds(*box), bins_log2=(bits,), encoder=encoder
        )
        vectors.append(
            {
                "encoding": asdict(encoding),
                "lower": float(-bound).hex(),
                "upper": float(bound).hex(),
                "bins_log2": bits,
                "values": [float(value).hex() for value in given],
                "bins": _find(statistic, [float(value) for value in given], engine),
            }
        )
    return vectors


def make_clip_vectors(engine: SketchEngine | None = None) -> list[dict[str, Any]]:
    """Quantised records to clipped ones: the sum of squares at and beside a perfect square."""
    records = {
        1: [[2000], [-2047], [500], [-501]],
        2: [[1200, -1600], [2000, 1], [-1, -2000], [2047, -2047], [300, 400], [300, 401]],
        7: [
            [1200, 1600, 0, 0, 0, 0, 0],
            [2000, -1, 0, 0, 0, 0, 0],
            [-1999, 63, 5, 2, 0, 0, 0],
            [2047, -2047, 2047, -2047, 2047, -2047, 2047],
            [300, 0, 400, 0, 0, 0, 0],
            [1, 2, 3, 4, 5, 6, 7],
        ],
    }
    vectors = []
    for d, rows in records.items():
        statistic = MomentsStatistic(
            quantiser=Quantiser.from_bounds([-32767.0] * d, [32767.0] * d), norm_steps=500
        )
        clipped = []
        for row in rows:
            sums = _sum(statistic, 16.0 * np.array([row], dtype=np.float64), engine)
            clipped.append([value // statistic.mean_weight for value in sums[1 : 1 + d]])
        vectors.append({"norm_steps": 500, "coordinates": rows, "clipped": clipped})
    return vectors


def make_records() -> list[list[float | None]]:
    """Records of four dimensions, with values beyond the box and missing ones."""
    words = WordStream(SEED, "vectors/kinds").take(5 * N_RECORDS).reshape(N_RECORDS, 5)
    records = []
    for word in words.tolist():
        small = [value % 100_003 for value in word]
        record: list[float | None] = [
            small[0] / 1024 - 40.0,
            (-1) ** small[4] * 2.0 ** (small[1] % 60 - 30) * (1 + small[1] / 131072),
            small[2] / 512 + 900.0,
            float(small[3] % 4),
        ]
        if small[4] % 7 == 0:
            record[small[4] % 4] = None
        records.append(record)
    return records


CLUSTERS: dict[str, Any] = {
    "assigned": ["0", "3"],
    "summed": ["0", "1", "3"],
    "centres": [
        [-9000, 32767, -32767, -32767],
        [9000, -32767, 32767, -32767],
        [0, -32767, -32767, 1],
        [20000, 0, 0, -20000],
    ],
    "weights": [7, 1, 1, 2],
    "cap": 4_000_000_000,
    "origins": [[-9000, 5, 0, 0, 0], [9000, -700, 0, 0, 0], [0] * 5, [1, 2, 3, 4, 5]],
    "radii": [[30000] * 5, [12000, 8000, 65534, 65534, 65534], [1] * 5, [49999] * 5],
    "units": {
        "residual": 16384,
        "count": 2048,
        "square": 2047,
        "beyond": 512,
        "presence": 511,
        "total": 1024,
    },
    "candidates": [[[0] * 4, [9000, -1, -1, -1], [-9000] * 4, [32767] * 4]],
    "clusters_per_sketch": 4,
}
"""Dimensions 0 and 3 assign; dimension 1, which can be missing, is summed besides."""


def _make_clusters(norm: Norm, box: Quantiser, encoder: RecordEncoder) -> ClustersStatistic:
    arrays: dict[str, Any] = {
        name: np.array(CLUSTERS[name], dtype=np.int64)
        for name in ("centres", "weights", "origins", "radii", "candidates")
    }
    return ClustersStatistic(
        quantiser=box,
        encoder=encoder,
        assigned=(0, 3, 4, 5),
        summed=(0, 1, 3, 4, 5),
        optional=(1,),
        cap=CLUSTERS["cap"],
        units=Units(**CLUSTERS["units"]),
        norm=norm,
        **arrays,
    )


def _make_statistics() -> dict[str, Statistic]:
    encoder = RecordEncoder(dimensions=ENCODINGS)
    box = Quantiser.from_bounds(*encoder.encode_bounds(LOWER, UPPER))
    scales = Quantiser.from_bounds(*encoder.transform_bounds(LOWER, UPPER))
    few = RecordEncoder(dimensions=ENCODINGS[:3])
    few_box = Quantiser.from_bounds(*few.encode_bounds(LOWER[:3], UPPER[:3]))
    frequencies = draw_frequencies(
        SEED,
        n_frequencies=6,
        law=RadiusLaw(),
        quantiser=box,
        scale=encoder.encode_scale([8.0, 2.0, 10.0, None]),
    )
    bins = (4, 6, 3, 0)
    by_norm = {norm: _make_clusters(norm, box, encoder) for norm in NORMS}
    two = FrequencyBlocks(seed=bytes(32), n_frequencies=4, frequencies_per_sketch=2).members[0]
    return {
        "fourier": FourierStatistic(quantiser=box, frequencies=frequencies, encoder=encoder),
        "histogram": HistogramStatistic(quantiser=scales, bins_log2=bins, encoder=encoder),
        "histogram of dimensions 1 and 3": HistogramStatistic(
            quantiser=scales, bins_log2=bins, encoder=encoder, dimensions=(1, 3)
        ),
        "grid of dimensions 0 to 2": GridStatistic(quantiser=few_box, cells=(3, 2, 5), encoder=few),
        "moments, diagonal weight 5": MomentsStatistic(
            quantiser=box, norm_steps=2500, encoder=encoder
        ),
        "moments, diagonal weight 7": MomentsStatistic(
            quantiser=box, norm_steps=2501, diagonal_weight=7, encoder=encoder
        ),
        **{f"clusters, {norm}": each for norm, each in by_norm.items()},
        "clusters, two in a sketch, l1": replace(by_norm["l1"], carried=tuple(two.tolist())),
    }


def make_kind_vectors(engine: SketchEngine | None = None) -> dict[str, Any]:
    """Return all vectors of this file, computed by one engine."""
    records = make_records()
    array = np.array([[np.nan if v is None else v for v in record] for record in records])
    sums = []
    for name, statistic in _make_statistics().items():
        d = 3 if name.startswith("grid") else 4
        accumulator = SketchAccumulator(statistic, engine=engine)
        accumulator.add(array[:, :d])
        sums.append(
            {
                "statistic": name,
                "n_unsketchable": accumulator.n_unsketchable,
                "l1": _measure(statistic, "l1"),
                "l2_squared": _measure(statistic, "l2_squared"),
                "sums": accumulator.sums.tolist(),
            }
        )
    return {
        "logarithms": make_logarithm_vectors(),
        "bins": make_bin_vectors(engine),
        "clipped": make_clip_vectors(engine),
        "encodings": [asdict(encoding) for encoding in ENCODINGS],
        "lower": LOWER,
        "upper": UPPER,
        "histogram_bins_log2": [4, 6, 3, 0],
        "grid_cells": [3, 2, 5],
        "clusters": CLUSTERS,
        "norm_steps": {"5": 2500, "7": 2501},
        "frequencies": {"seed": SEED.hex(), "n_frequencies": 6, "radius_law": asdict(RadiusLaw())},
        "scale": [8.0, 2.0, 10.0, None],
        "records": records,
        "sums": sums,
    }


def _measure(statistic: Statistic, norm: str) -> dict[str, int] | None:
    """Return the sensitivity by relation; that of features is enumerated elsewhere."""
    if isinstance(statistic, FourierStatistic):
        return None
    measure = getattr(statistic, f"measure_{norm}")
    return {relation: measure(relation) for relation in ("replace-one", "add-remove-one")}
