"""Reference pages written from the code, so that they cannot fall behind it.

``python -m docs.generator`` writes them into ``docs/reference``. They are committed, because people
read them on a forge too; ``tests/architecture/test_documents.py`` fails when one is not fresh.
"""
