"""Pages for people, which load nothing from another server; only `/` has scripts.

Importable by the wiring.
"""

from sfumato.aggregator.ui.dashboard import add_dashboard
from sfumato.aggregator.ui.reference import add_reference

__all__ = ["add_dashboard", "add_reference"]
