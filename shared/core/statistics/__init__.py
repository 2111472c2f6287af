"""Statistics: the integers that a record adds to a sum, one module each."""

from sfumato.shared.core.statistics.clusters import ClustersStatistic
from sfumato.shared.core.statistics.fourier import FourierStatistic
from sfumato.shared.core.statistics.grid import GridStatistic
from sfumato.shared.core.statistics.histogram import HistogramStatistic
from sfumato.shared.core.statistics.interface import Statistic
from sfumato.shared.core.statistics.moments import MomentsStatistic

__all__ = [
    "ClustersStatistic",
    "FourierStatistic",
    "GridStatistic",
    "HistogramStatistic",
    "MomentsStatistic",
    "Statistic",
]
