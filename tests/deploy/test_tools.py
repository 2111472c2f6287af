"""Tests that need programs of the system say which are missing, rather than skip in silence."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_is_missing_is_told_in_one_line_with_what_brings_it(tmp_path: Path) -> None:
    for name in ("bash", "env", "shellcheck"):
        path = shutil.which(name)
        if path is not None:
            (tmp_path / name).symlink_to(path)
    done = subprocess.run(
        [ROOT / ".ci/tools", "--say"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "note: tests are skipped of the page and devices in a browser (Chromium);"
    )
    assert "apt-get install chromium-headless-shell gcc-aarch64-linux-gnu" in line
    assert "shellcheck" not in line or shutil.which("shellcheck") is None
