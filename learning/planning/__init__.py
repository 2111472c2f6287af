"""Choices before there are data: m, mechanism and radius law, and the quality to expect of them."""
