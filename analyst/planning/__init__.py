"""Everything about a plan before a study starts: advice, making one, explaining one.

Importable by ``analyst.cli``, which serves it as ``sfumato plan``.
"""
