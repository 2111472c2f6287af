"""Tests of what an image gets of the system: links, libraries, and what is not there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy import collect_image
from deploy.collect_image import follow, list_libraries, list_library

SHELL = Path("/bin/sh").resolve()


def test_a_link_comes_with_all_that_it_leads_to_and_by_no_way_through_a_link(
    tmp_path: Path,
) -> None:
    (tmp_path / "usr" / "lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/some.so.1.2").write_bytes(b"")
    (tmp_path / "usr/lib/some.so.1").symlink_to("some.so.1.2")
    (tmp_path / "usr/lib/some.so").symlink_to("../lib/some.so.1")
    place = tmp_path.resolve() / "usr/lib"
    assert list(follow(tmp_path / "lib/some.so")) == [
        place / "some.so",
        place / "some.so.1",
        place / "some.so.1.2",
    ]
    # A link to a folder would bring the folder a second time.
    assert list(follow(tmp_path / "lib")) == [tmp_path.resolve() / "lib"]


def test_a_program_comes_with_its_libraries_and_its_loader() -> None:
    found = {path.name for path in list_libraries({SHELL})}
    assert any(name.startswith("libc.") for name in found)
    assert any(name.startswith("ld-") for name in found)
    assert list(list_libraries({Path(__file__)})) == []


def test_a_library_that_is_nowhere_is_named(tmp_path: Path) -> None:
    source, needed, lacking = tmp_path / "a.c", tmp_path / "libabsent.so", tmp_path / "needs.so"
    (tmp_path / "other").mkdir()
    source.write_text("int absent(void) { return 1; }\n", encoding="utf-8")
    compiler = shutil.which("gcc") or "cc"
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", needed], check=True)
    link = ["-Wl,--no-as-needed", f"-L{tmp_path}", "-labsent"]
    subprocess.run([compiler, "-shared", "-fPIC", source, "-o", lacking, *link], check=True)
    moved = needed.rename(tmp_path / "other" / "libabsent.so")
    with pytest.raises(FileNotFoundError, match=r"needs\.so needs libabsent\.so"):
        list(list_libraries({lacking}))
    # One that a wheel brings is found by way of the module that loads it.
    assert moved not in list_libraries({lacking, moved})


def test_the_standard_library_comes_without_its_tests_and_installer() -> None:
    found = list(list_library())
    assert "ssl.py" in {path.name for path in found}
    assert "turtle.py" not in {path.name for path in found}
    assert not any("ensurepip" in path.parts for path in found)


def test_a_base_image_without_a_command_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect_image, "COMMANDS", "sh no-such-command")
    with pytest.raises(FileNotFoundError, match="the base image lacks /usr/bin/no-such-command"):
        collect_image.list_all()


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="not a Debian")
def test_packages_are_told_of_the_files_that_are_there_alone() -> None:
    told = collect_image.describe_packages([SHELL])
    assert re.findall(r"^Package: (\S+)", told, re.M) == [SHELL.name]
    assert "Version: " in told
