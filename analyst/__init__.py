"""Client library of the REST interface, plans, sketches of files, and plots."""

from analyst.client import AsyncClient, AsyncDecode, Client, Decode
from analyst.results import DecodeResult

__all__ = ["AsyncClient", "AsyncDecode", "Client", "Decode", "DecodeResult"]
