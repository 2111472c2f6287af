"""Runs `sfumato-agent` as ``python -m device_agent.cli``."""

import sys

from device_agent.cli import main

sys.exit(main())
