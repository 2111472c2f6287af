"""Conversation with the server: requests, their answers, deadlines and certificates."""
