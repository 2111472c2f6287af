"""What the agent does: enrol, read, release, send, report. Each use case is one module.

Only ``device_agent.cli`` and tests may import it. Clocks come in as arguments.
"""
