"""The server's services, independent of the wire.

Importable by the interfaces (api, ui) and the wiring. Services use the transactions of
`sfumato.aggregator.storage`; they know neither HTTP nor SQL.
"""

from sfumato.aggregator.services.container import Services

__all__ = ["Services"]
