"""Client library of the REST interface, plans, sketches of files, and plots."""

from analyst.client import Analysis, AsyncAnalysis, AsyncClient, AsyncDecode, Client, Decode
from analyst.results import DecodeResult
from shared.plan import LogTransform
from shared.wire.bodies.advice import PlannedDimension

__all__ = [
    "Analysis",
    "AsyncAnalysis",
    "AsyncClient",
    "AsyncDecode",
    "Client",
    "Decode",
    "DecodeResult",
    "LogTransform",
    "PlannedDimension",
]
