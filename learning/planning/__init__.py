"""Choices before any data exist: m, mechanism and radius law, and the expected quality."""
