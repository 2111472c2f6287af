"""Generative methods of the literature: networks, MWEM, a tree of pairs."""
