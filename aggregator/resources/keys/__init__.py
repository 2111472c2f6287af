"""API keys, the audit log, and the keys that sign results."""
