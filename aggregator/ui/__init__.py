"""Pages for people, which load nothing from another server; only `/` has scripts.

Importable by the wiring.
"""

from aggregator.ui.dashboard import add_dashboard
from aggregator.ui.reference import add_reference

__all__ = ["add_dashboard", "add_reference"]
