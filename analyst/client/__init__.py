"""Client of the REST interface, for analysts and operators: ``from analyst import Client``."""

from analyst.client.asynchronous.client import AsyncClient
from analyst.client.asynchronous.decodes import AsyncDecode
from analyst.client.synchronous.client import Client
from analyst.client.synchronous.decodes import Decode

__all__ = ["AsyncClient", "AsyncDecode", "Client", "Decode"]
