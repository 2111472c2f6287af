"""Self-contained pages: a result for people who were not there, and the dossier of a study."""

from sfumato.analyst.report.dossier import Dossier, collect_dossier, render_dossier
from sfumato.analyst.report.page import render_report

__all__ = ["Dossier", "collect_dossier", "render_dossier", "render_report"]
