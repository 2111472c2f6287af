"""Client library of the REST interface, plans, sketches of files, and plots."""

from analyst.client import Analysis, AsyncAnalysis, AsyncClient, AsyncDecode, Client, Decode
from analyst.results import DecodeResult

__all__ = [
    "Analysis",
    "AsyncAnalysis",
    "AsyncClient",
    "AsyncDecode",
    "Client",
    "Decode",
    "DecodeResult",
]
