"""The steps of building wheels; ``make wheels`` itself checks every wheel that it builds."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from deploy.packages.steps import BuildError, export, run
from deploy.packages.wheels import ANY, TARGETS, build_wheel, main, require_portable, write_compiler


def test_what_is_built_is_the_commit_and_not_what_lies_beside_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    (repository / "kept.txt").write_text("as committed")
    run(["git", "init", "--quiet"], folder=repository)
    run(["git", "add", "kept.txt"], folder=repository)
    date = "2026-01-02T03:04:05Z"
    commit = ["git", *person, "commit", "--quiet", "--message", "First"]
    run(commit, folder=repository, GIT_COMMITTER_DATE=date, GIT_AUTHOR_DATE=date)
    (repository / "kept.txt").write_text("changed since")
    (repository / "stray.txt").write_text("stray")
    assert export(tmp_path / "source", "HEAD", repository=repository) == 1_767_323_045
    assert [path.name for path in (tmp_path / "source").iterdir()] == ["kept.txt"]
    assert (tmp_path / "source/kept.txt").read_text() == "as committed"


def test_a_wheel_without_the_kernel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "sfumato-0.1.0-cp311-abi3-manylinux_2_17_aarch64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sfumato/__init__.py", "")
    with pytest.raises(BuildError, match="the kernel was not compiled"):
        require_portable(wheel, TARGETS[0])


def test_without_the_kernel_a_wheel_serves_every_system(tmp_path: Path) -> None:
    epoch = export(tmp_path / "source", "HEAD")
    wheel = build_wheel(tmp_path / "source", tmp_path / "dist", Path("none"), ANY, epoch)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert require_portable(wheel, ANY) == "holds no kernel"
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/WHEEL"))
        assert b"Root-Is-Purelib: true" in archive.read(metadata)


def test_a_compiler_hands_on_its_arguments_and_its_status(tmp_path: Path) -> None:
    for target in TARGETS:
        text = write_compiler(tmp_path, target).read_text()
        assert f'-target {target.zig} "$@"' in text
    assert len({target.tag for target in TARGETS}) == len(TARGETS) == 4


def test_a_step_that_fails_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no-such-thing"):
        run(["ls", "no-such-thing"], folder=tmp_path)


def test_a_commit_that_is_not_here_is_named_with_the_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--commit", "no-such", "--output", str(tmp_path / "dist")]) == 1
    assert capsys.readouterr().err == (
        "wheels: --commit: 'no-such' is not a commit here. Name one that `git log --all --oneline` "
        "shows, or run `git fetch` first\n"
    )
    assert not (tmp_path / "dist").exists()
    with pytest.raises(
        BuildError, match="is no git repository, and packages are built from a commit"
    ):
        export(tmp_path / "source", "HEAD", repository=tmp_path)
