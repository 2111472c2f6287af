"""The generator of pages and pictures from files of rows.

A page is the Markdown in the template of its name in this folder. A section whose tables have no
row is left out. The last line of a table in a template is its row for each case that has the
figures::

    | {case:no change, (.*)} | {rms_score.runs} | {found?:.2f} |

The expression selects cases, and each of its groups is a cell; ``?`` marks a figure that may be
missing, with ``-`` in its place, ``~`` one with an empty cell. With ``{value}`` there is a line for
each row, not for each case. A line such as ``{losses}`` is a table of
:mod:`benchmarks.pages.tables`.
"""
