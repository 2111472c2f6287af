"""One module for each schema version; a published one never changes."""
