"""The server: it takes sketches in, adds them up and recovers centroids from the sums.

Only its own command line, tests and benchmarks may import it; device and analyst speak to it
over HTTP. It imports `shared`.
"""
