"""Sketching a file on the machine that holds it: records larger than memory, one private sketch.

Importable by ``analyst.cli``, which serves it as ``sfumato sketch``. ``read_sketch_file`` is for
whoever receives such a sketch.
"""

from analyst.sketching.sketch_file import SketchFile, read_sketch_file

__all__ = ["SketchFile", "read_sketch_file"]
