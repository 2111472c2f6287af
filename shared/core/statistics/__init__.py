"""Statistics: the integers that a record adds to a sum, one module each."""

from shared.core.statistics.fourier import FourierStatistic
from shared.core.statistics.interface import Statistic

__all__ = ["FourierStatistic", "Statistic"]
