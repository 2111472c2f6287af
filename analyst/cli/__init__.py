"""The commands of people who publish studies, sketch files and read results.

Plugged in by entry points of ``sfumato``. The server is named by ``--url`` or ``SFUMATO_URL``, the
key by ``--key`` or ``SFUMATO_KEY``.
"""

from __future__ import annotations

from analyst.cli.decodes import app as decode
from analyst.cli.devices import app as device
from analyst.cli.keys import app as key
from analyst.cli.keys import audit
from analyst.cli.plans import app as plan
from analyst.cli.sketches import app as sketch
from analyst.cli.studies import app as study

__all__ = ["audit", "decode", "device", "key", "plan", "sketch", "study"]
