"""The REST interface: addresses, schemas and problem documents around the services.

Importable by the wiring. It knows HTTP and the services, and no store.
"""

from sfumato.aggregator.api.interface import create_interface

__all__ = ["create_interface"]
