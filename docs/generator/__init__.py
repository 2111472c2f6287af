"""Generate the reference pages from the code, so that they are never out of date.

``python -m docs.generator`` writes them into ``docs/reference``. They are committed, because people
also read them on a forge; ``tests/architecture/test_documents.py`` fails if one is out of date.
"""
