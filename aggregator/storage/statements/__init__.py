"""Statements on the tables, by subject; a ``Transaction`` of the store has all of them."""
