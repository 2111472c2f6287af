"""Jobs: decodes and analyses, and their results."""
