"""Client of the REST interface, for analysts and operators: ``from sfumato import Client``."""

from sfumato.analyst.client.analyses import AsyncAnalysis
from sfumato.analyst.client.blocking import Analysis, Client, Decode, ServedResult
from sfumato.analyst.client.client import AsyncClient
from sfumato.analyst.client.decodes import AsyncDecode, AsyncServedResult

__all__ = [
    "Analysis",
    "AsyncAnalysis",
    "AsyncClient",
    "AsyncDecode",
    "AsyncServedResult",
    "Client",
    "Decode",
    "ServedResult",
]
