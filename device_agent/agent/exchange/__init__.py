"""Exchange with the server: polls, uploads, changes of the key, and signs of another copy."""
