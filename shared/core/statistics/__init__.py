"""Statistics: the integers that a record adds to a sum, one module each."""

from shared.core.statistics.fourier import FourierStatistic
from shared.core.statistics.grid import GridStatistic
from shared.core.statistics.histogram import HistogramStatistic
from shared.core.statistics.interface import Statistic
from shared.core.statistics.moments import MomentsStatistic

__all__ = [
    "FourierStatistic",
    "GridStatistic",
    "HistogramStatistic",
    "MomentsStatistic",
    "Statistic",
]
