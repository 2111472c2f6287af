"""The integer sketch: pure mathematics, defined once and bit-identical in every engine.

Every package may import it. It imports only numpy and ``shared.errors``; randomness and clocks come
in as arguments. ``docs/explanation/sketch.md`` is the definition that a port must follow.
"""

from shared.core.blocks import FrequencyBlocks
from shared.core.encoder import DimensionEncoding, RecordEncoder
from shared.core.features import AMPLITUDE, compute_features, feature_table
from shared.core.frequencies import FrequencyMatrix, RadiusLaw, draw_frequencies
from shared.core.masks import MaskSchedule
from shared.core.quantise import Quantiser
from shared.core.records import Columns, Records
from shared.core.sketch import SketchAccumulator, count_most_records
from shared.core.statistics import (
    FourierStatistic,
    GridStatistic,
    HistogramStatistic,
    MomentsStatistic,
    Statistic,
)

__all__ = [
    "AMPLITUDE",
    "Columns",
    "DimensionEncoding",
    "FourierStatistic",
    "FrequencyBlocks",
    "FrequencyMatrix",
    "GridStatistic",
    "HistogramStatistic",
    "MaskSchedule",
    "MomentsStatistic",
    "Quantiser",
    "RadiusLaw",
    "RecordEncoder",
    "Records",
    "SketchAccumulator",
    "Statistic",
    "compute_features",
    "count_most_records",
    "draw_frequencies",
    "feature_table",
]
