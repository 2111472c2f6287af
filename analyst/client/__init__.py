"""Client of the REST interface, for analysts and operators: ``from analyst import Client``."""

from analyst.client.asynchronous.analyses import AsyncAnalysis
from analyst.client.asynchronous.client import AsyncClient
from analyst.client.asynchronous.decodes import AsyncDecode, AsyncServedResult
from analyst.client.synchronous.analyses import Analysis
from analyst.client.synchronous.client import Client
from analyst.client.synchronous.decodes import Decode, ServedResult

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
