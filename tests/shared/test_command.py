import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from shared import command
from shared.core.engines import (
    ENGINE_VARIABLE,
    choose_engine,
    describe_engine,
    list_engines,
)

Contribute = Callable[..., None]

GOOD_MODULE = '''
import sys

def greet(argv):
    """Say hello to those who are named.

    More that help does not show.
    """
    print("hello", *argv)
    return len(argv)

def silent(argv):
    return 0
'''


@pytest.fixture
def contribute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contribute:
    """Install a distribution that contributes commands, and hide every other contribution."""
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points = metadata.entry_points

    def only_ours(*, group: str) -> metadata.EntryPoints:
        return metadata.EntryPoints(
            entry
            for entry in entry_points(group=group)
            if entry.dist is not None and entry.dist.name == "contributor"
        )

    monkeypatch.setattr(metadata, "entry_points", only_ours)

    def contribute(
        commands: dict[str, str], *, modules: dict[str, str], extras: tuple[str, ...] = ()
    ) -> None:
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
            # The module cache outlives a test; these names belong to this one.
            monkeypatch.delitem(sys.modules, name, raising=False)
        information = tmp_path / "contributor-1.0.dist-info"
        information.mkdir()
        provided = "".join(f"Provides-Extra: {extra}\n" for extra in extras)
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: contributor\nVersion: 1.0\n{provided}"
        )
        registered = "".join(f"{name} = {target}\n" for name, target in commands.items())
        (information / "entry_points.txt").write_text(f"[{command.GROUP}]\n{registered}")

    return contribute


def test_a_command_gets_the_arguments_after_its_name_and_gives_the_exit_status(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({"greet": "contributed:greet"}, modules={"contributed": GOOD_MODULE})
    assert command.main(["greet", "--help", "-v", "Ada"]) == 3
    assert capsys.readouterr().out == "hello --help -v Ada\n"


def test_the_arguments_of_the_process_are_used_when_none_are_given(
    contribute: Contribute,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contribute({"greet": "contributed:greet"}, modules={"contributed": GOOD_MODULE})
    monkeypatch.setattr(sys, "argv", ["sfumato", "greet", "Ada"])
    assert command.main() == 1
    assert capsys.readouterr().out == "hello Ada\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_each_command_with_the_first_line_of_its_docstring(
    option: str, contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {"silent": "contributed:silent", "greet": "contributed:greet"},
        modules={"contributed": GOOD_MODULE},
    )
    assert command.main([option]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["  greet   Say hello to those who are named.", "  silent"]


def test_help_names_the_extra_that_would_provide_a_command(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {"greet": "contributed:greet", "chart": "plotting:chart", "lost": "adrift:lost"},
        modules={
            "contributed": GOOD_MODULE,
            "plotting": "import a_library_nobody_has",
            "adrift": "import another_library_nobody_has",
        },
        extras=("plotting",),
    )
    assert command.main(["--help"]) == 0
    available, unavailable = capsys.readouterr().out.split("not installed here")
    assert "greet" in available
    assert "chart" not in available
    assert "lost" not in available
    assert "chart  pip install 'sfumato[plotting]'" in unavailable
    assert "another_library_nobody_has" in unavailable


def test_no_extra_is_named_for_a_module_of_the_package_itself(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({"gone": "plotting.gone:run"}, modules={"plotting": ""}, extras=("plotting",))
    assert command.main(["gone"]) == command.EXIT_USAGE
    message = capsys.readouterr().err
    assert "needs the module plotting.gone" in message
    assert "pip install" not in message


def test_help_works_when_nothing_is_contributed(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({}, modules={})
    assert command.main(["--help"]) == 0
    assert "none" in capsys.readouterr().out


def test_running_a_command_that_is_not_installed_names_the_fix(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {"chart": "plotting:chart"},
        modules={"plotting": "import a_library_nobody_has"},
        extras=("plotting",),
    )
    assert command.main(["chart"]) == command.EXIT_USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert "pip install 'sfumato[plotting]'" in output.err


def test_only_the_command_that_is_run_is_imported(contribute: Contribute) -> None:
    contribute(
        {"silent": "contributed:silent", "broken": "broken:run"},
        modules={"contributed": GOOD_MODULE, "broken": "raise RuntimeError('imported')"},
    )
    assert command.main(["silent"]) == 0


def test_a_defect_in_a_command_is_not_taken_for_a_missing_extra(contribute: Contribute) -> None:
    contribute({"broken": "broken:run"}, modules={"broken": "raise RuntimeError('a defect')"})
    with pytest.raises(RuntimeError, match="a defect"):
        command.main(["broken"])


def test_an_unknown_command_is_refused_and_the_known_ones_are_named(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {"silent": "contributed:silent", "greet": "contributed:greet"},
        modules={"contributed": GOOD_MODULE},
    )
    assert command.main(["great"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "'great'" in output.err
    assert "greet, silent" in output.err


@pytest.mark.parametrize("arguments", [[], ["--no-such-option"], ["--help", "greet"]])
def test_a_call_that_names_no_command_is_refused_on_standard_error(
    arguments: list[str], contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({"greet": "contributed:greet"}, modules={"contributed": GOOD_MODULE})
    assert command.main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "usage: sfumato" in output.err


def test_version_is_that_of_the_installed_distribution_and_names_the_engine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list_engines():
        monkeypatch.setenv(ENGINE_VARIABLE, name)
        assert command.main(["--version"]) == 0
        version, engine = capsys.readouterr().out.splitlines()
        assert version == f"sfumato {metadata.version('sfumato')}"
        assert engine == f"engine: {describe_engine(choose_engine(name))}"
    monkeypatch.setenv(ENGINE_VARIABLE, "fast")
    assert command.main(["--version"]) == 2
    assert ENGINE_VARIABLE in capsys.readouterr().err


def test_the_packages_contribute_their_commands() -> None:
    registered = {name: entry.module for name, entry in command.find_commands().items()}
    aggregator = dict.fromkeys(["serve", "worker", "key", "migrate"], "aggregator.cli")
    analyst = dict.fromkeys(["plan", "study", "decode"], "analyst.cli")
    assert registered.items() >= (aggregator | analyst).items()


def test_the_command_brings_no_other_package_with_it() -> None:
    siblings = ("device_agent", "aggregator", "analyst", "typer", "httpx", "numpy")
    program = (
        "import sys; import shared.command; "
        f"sys.exit(', '.join(name for name in {siblings!r} if name in sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert finished.stderr.decode().strip() == ""
