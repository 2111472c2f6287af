"""The agent's use cases: enrol, read, release, send, report. Each is one module.

Only ``device_agent.cli`` and tests may import it. Clocks come in as arguments.
"""
