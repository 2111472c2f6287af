"""The client library, plots and commands for people who use the REST interface.

This is the package that users import in their own programs. Inside the tree only tests and
benchmarks may. It imports `shared` and never the aggregator, which it reaches over HTTP.
"""
