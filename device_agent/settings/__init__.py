"""Settings of the agent: read from TOML, checked, and described where they are wrong."""
