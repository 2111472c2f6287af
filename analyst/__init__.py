"""The client library and plots for people who use the REST interface.

Importable by anyone who installs ``sfumato[analyst]``; imports ``shared`` and nothing of the
aggregator or the device.
"""

from analyst.client import Client, Decode
from analyst.results import DecodeResult

__all__ = ["Client", "Decode", "DecodeResult"]
