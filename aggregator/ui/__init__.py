"""Pages for people, made on the server: no script, and nothing from another one.

Importable by the wiring.
"""

from aggregator.ui.reference import add_reference

__all__ = ["add_reference"]
