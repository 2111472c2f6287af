"""Client library of the REST interface, plans, sketches of files, and plots."""

from sfumato.analyst.client import Analysis, AsyncAnalysis, AsyncClient, AsyncDecode, Client, Decode
from sfumato.analyst.results import DecodeResult
from sfumato.shared.plan import LogTransform
from sfumato.shared.wire.objects.advice import PlannedDimension

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
