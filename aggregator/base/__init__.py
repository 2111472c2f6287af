"""Base: what no resource owns, from the database engine to the exact arithmetic of sums.

Importable by all of `aggregator` but settings and logs. Errors of SQLAlchemy are mapped to errors
of this project here.
"""
