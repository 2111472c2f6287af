"""Private sketches of files that may exceed the memory (``sfumato sketch``)."""

from sfumato.analyst.sketching.sketch_file import SketchFile, read_sketch_file

__all__ = ["SketchFile", "read_sketch_file"]
