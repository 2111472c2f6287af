"""Who may read what: every answer of the server is in the table, and the page shows the table."""

from collections import Counter
from pathlib import Path

from sfumato.shared.wire.access import READERS, SIGHTS, list_declared, list_readers

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "privacy.md"


def test_every_call_that_reads_is_in_the_table_once_beside_those_of_its_scope() -> None:
    scopes = {call.name: call.scope for call in list_declared() if call.method == "GET"}
    shown = Counter(name for names in SIGHTS.values() for name in names.split())
    assert shown == dict.fromkeys(scopes, 1)
    for (what, readers), names in zip(list_readers(), SIGHTS.values(), strict=True):
        assert {READERS[scopes[name]] for name in names.split()} == {readers}, what


def test_the_page_for_a_privacy_officer_shows_the_table() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [f"| {what} | {readers} |" for what, readers in list_readers()]
    begin = lines.index(rows[0]) if rows[0] in lines else 0
    assert lines[begin : begin + len(rows)] == rows, "\n".join(rows)
