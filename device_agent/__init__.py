"""The agent that runs on a device: it reads records and releases signed sketches, nothing else.

Only its own command line, tests and benchmarks may import it. It imports `shared` and no
server library.
"""
