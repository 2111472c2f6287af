"""Tests of what an image and its installation are compared by."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import load_all


def test_an_import_inside_a_function_that_cannot_be_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "learning_apart"
    package.mkdir()
    (package / "__init__.py").write_text("if False:\n    from learning_apart.room import one\n")
    (package / "later.py").write_text("def run():\n    from no_such_module.inner import one\n")
    (package / "broken.py").write_text("import json\n1 / 0\n")
    (package / "__main__.py").write_text("raise SystemExit(3)\n")
    monkeypatch.setattr(load_all, "FOLDER", tmp_path)
    monkeypatch.setattr(load_all, "NAME", "learning_apart")
    monkeypatch.syspath_prepend(tmp_path)
    assert list(load_all.list_missing()) == ["learning_apart.broken", "no_such_module.inner"]
