"""Use cases of the agent: enrol, check, read, release, send, report."""
