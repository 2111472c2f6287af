"""The REST interface: addresses, schemas and problem documents around the services.

Importable by the wiring. It knows HTTP and the services, and no store.
"""

from aggregator.api.interface import InterfaceLimits, create_interface

__all__ = ["InterfaceLimits", "create_interface"]
