"""The server's services, independent of the wire and of the store.

Importable by the interfaces (api, ui) and the wiring. Services speak to the ports; they know
neither HTTP nor SQL.
"""

from aggregator.services.container import ServiceLimits, Services, create_services

__all__ = ["ServiceLimits", "Services", "create_services"]
