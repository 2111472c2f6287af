"""Windows: the records that one sketch covers, decided by counts and times alone.

Pure: no clock, no files, no network. ``WindowCutter`` serves ``replace-one``, ``SlotSchedule``
``add-remove-one``; ``Clocks`` holds the times by which either may close.
"""

from sfumato.device_agent.windows.clocks import (
    OLDER_THAN_THIS,
    Clocks,
    describe_difference,
    describe_uncertain,
)
from sfumato.device_agent.windows.cutter import Cut, WindowCutter, WindowState
from sfumato.device_agent.windows.schedule import LEFT_OUT, SlotSchedule

__all__ = [
    "LEFT_OUT",
    "OLDER_THAN_THIS",
    "Clocks",
    "Cut",
    "SlotSchedule",
    "WindowCutter",
    "WindowState",
    "describe_difference",
    "describe_uncertain",
]
