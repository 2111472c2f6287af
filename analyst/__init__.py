"""Client library of the REST interface, plans, sketches of files, and plots."""

from analyst.client import Client
from analyst.decode import Decode
from analyst.results import DecodeResult

__all__ = ["Client", "Decode", "DecodeResult"]
