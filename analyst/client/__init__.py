"""Client of the REST interface, for analysts and operators: ``from sfumato import Client``."""

from sfumato.analyst.client.asynchronous.analyses import AsyncAnalysis
from sfumato.analyst.client.asynchronous.client import AsyncClient
from sfumato.analyst.client.asynchronous.decodes import AsyncDecode, AsyncServedResult
from sfumato.analyst.client.synchronous.analyses import Analysis
from sfumato.analyst.client.synchronous.client import Client
from sfumato.analyst.client.synchronous.decodes import Decode, ServedResult

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
