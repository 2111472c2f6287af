"""The integer sketch: pure mathematics, defined once and bit-identical in every engine.

Every package may import it. It imports only numpy and ``shared.errors``; randomness and clocks come
in as arguments. ``docs/explanation/sketch.md`` is the definition that a port must follow.
"""

from shared.core.blocks import FrequencyBlocks
from shared.core.features import AMPLITUDE, compute_features, feature_table
from shared.core.frequencies import FrequencyMatrix, RadiusLaw, draw_frequencies
from shared.core.masks import MaskSchedule
from shared.core.quantise import Quantiser
from shared.core.records import Columns, Records
from shared.core.sketch import SketchAccumulator
from shared.core.statistics import FourierStatistic, Statistic

__all__ = [
    "AMPLITUDE",
    "Columns",
    "FourierStatistic",
    "FrequencyBlocks",
    "FrequencyMatrix",
    "MaskSchedule",
    "Quantiser",
    "RadiusLaw",
    "Records",
    "SketchAccumulator",
    "Statistic",
    "compute_features",
    "draw_frequencies",
    "feature_table",
]
