"""A result as one self-contained page: for people who were not there, and to be checked later."""

from sfumato.analyst.report.page import render_report

__all__ = ["render_report"]
