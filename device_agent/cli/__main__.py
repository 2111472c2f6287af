"""Runs `sfumato-agent` as ``python -m sfumato.device_agent.cli``."""

import sys

from sfumato.device_agent.cli import main

sys.exit(main())
