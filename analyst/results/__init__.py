"""Results of decodes: figures, answers about records, tables, pictures and files."""

from sfumato.analyst.results.result import (
    FINAL_STATES,
    UNUSABLE,
    DecodeResult,
    require_success,
    require_usable,
)

__all__ = ["FINAL_STATES", "UNUSABLE", "DecodeResult", "require_success", "require_usable"]
