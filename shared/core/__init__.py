"""The integer sketch: pure mathematics, defined once and bit-identical in every engine.

Every package may import it. It imports only numpy and ``sfumato.shared.errors``; randomness and
clocks come in as arguments. ``docs/explanation/sketch.md`` is the definition that a port must
follow.
"""

from sfumato.shared.core.blocks import FrequencyBlocks
from sfumato.shared.core.encoder import DimensionEncoding, RecordEncoder
from sfumato.shared.core.features import AMPLITUDE, compute_features, feature_table
from sfumato.shared.core.frequencies import FrequencyMatrix, RadiusLaw, draw_frequencies
from sfumato.shared.core.masks import MaskSchedule
from sfumato.shared.core.quantise import Quantiser
from sfumato.shared.core.records import Columns, Records
from sfumato.shared.core.sketch import SketchAccumulator, count_most_records
from sfumato.shared.core.statistics import (
    ClustersStatistic,
    FourierStatistic,
    GridStatistic,
    HistogramStatistic,
    MomentsStatistic,
    Statistic,
)

__all__ = [
    "AMPLITUDE",
    "ClustersStatistic",
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
