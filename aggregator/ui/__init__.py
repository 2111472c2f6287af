"""Pages for people, with nothing from another server; `/` alone has scripts, all of its own.

Importable by the wiring.
"""

from aggregator.ui.dashboard import add_dashboard
from aggregator.ui.reference import add_reference

__all__ = ["add_dashboard", "add_reference"]
