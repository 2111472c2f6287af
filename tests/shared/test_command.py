import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from sfumato.shared import command
from sfumato.shared.core.engines import (
    ENGINE_VARIABLE,
    choose_engine,
    describe_engine,
    list_engines,
)

Contribute = Callable[..., None]

GOOD_MODULE = '''
import typer
from sfumato.shared.command import SETTINGS
from sfumato.shared.errors import ConfigError, DiskError

greet = typer.Typer(**SETTINGS)
silent = typer.Typer(**SETTINGS)
several = typer.Typer(help="Do one of several things.", **SETTINGS)

@greet.command()
def _greet(names: list[str], n_times: int = typer.Option(1, "-n")) -> int:
    """Say hello to those who are named.

    More that help does not show.
    """
    if n_times > 9:
        raise ConfigError("must be at most 9", field="n_times", fix="use less")
    print("hello", *names)
    return len(names)

@silent.command()
def _silent() -> None:
    pass

@several.command("fill")
def _fill() -> None:
    raise DiskError("is full")

@several.command("stop")
def _stop() -> None:
    raise KeyboardInterrupt
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
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
            # The module cache outlives a test; these names belong to this one.
            monkeypatch.delitem(sys.modules, name.replace("/", "."), raising=False)
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
    assert command.main(["greet", "Ada", "Grace", "--", "--help"]) == 3
    assert capsys.readouterr().out == "hello Ada Grace --help\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_each_command_with_its_first_line_and_every_exit_status(
    option: str, contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {name: f"contributed:{name}" for name in ("silent", "several", "greet")},
        modules={"contributed": GOOD_MODULE},
    )
    assert command.main([option]) == 0
    shown = capsys.readouterr().out
    rows = ["  greet    Say hello to those who are named.", "  several  Do one of several things."]
    assert "\n".join([*rows, "  silent"]) in shown
    for status in (0, command.EXIT_FAILED, command.EXIT_REFUSED, command.EXIT_STOPPED):
        assert re.search(rf"^  {status}  +\w", shown, re.MULTILINE)


def test_help_names_the_extra_that_would_provide_a_command(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {"greet": "contributed:greet", "chart": "house.plotting.cli:chart", "lost": "adrift:lost"},
        modules={
            "contributed": GOOD_MODULE,
            "house/plotting": "import a_library_nobody_has",
            "adrift": "import another_library_nobody_has",
        },
        extras=("plotting",),
    )
    assert command.main(["--help"]) == 0
    available, unavailable = capsys.readouterr().out.split("Not installed here")
    assert "greet" in available
    assert "chart" not in available
    assert "lost" not in available
    assert "chart  pip install 'sfumato[plotting]'" in unavailable
    assert "another_library_nobody_has" in unavailable


def test_running_a_command_that_is_not_installed_names_the_fix(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(
        {"chart": "plotting:chart"},
        modules={"plotting": "import a_library_nobody_has"},
        extras=("plotting",),
    )
    assert command.main(["chart"]) == command.EXIT_REFUSED
    output = capsys.readouterr()
    assert output.out == ""
    assert "pip install 'sfumato[plotting]'" in output.err


def test_only_the_command_that_is_run_is_imported(contribute: Contribute) -> None:
    contribute(
        {"silent": "contributed:silent", "broken": "broken:run"},
        modules={"contributed": GOOD_MODULE, "broken": "raise RuntimeError('imported')"},
    )
    assert command.main(["silent"]) == 0


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
    assert "Usage: sfumato" in output.err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["greet", "Ada", "-n", "10"], 2, "-n: must be at most 9. Use less"),
        (["greet", "Ada", "-n"], 2, "-n: Option '-n' requires an argument. Run `sfumato greet"),
        (["greet", "Ada", "-n", "1_0"], 2, "-n: must have no digits but 0 to 9"),
        (["greet"], 2, "names: is missing. Run `sfumato greet --help`"),
        (["greet", "Ada", "--loud"], 2, "--loud: is not an option of `sfumato greet`"),
        (["several", "nothing"], 2, "No such command 'nothing'"),
        (["several", "fill"], 1, "is full"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_that_names_what_was_typed(
    arguments: list[str],
    status: int,
    said: str,
    contribute: Contribute,
    capsys: pytest.CaptureFixture[str],
) -> None:
    contribute(
        {"greet": "contributed:greet", "several": "contributed:several"},
        modules={"contributed": GOOD_MODULE},
    )
    assert command.main(arguments) == status
    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.strip().splitlines()
    assert line.startswith(f"sfumato: error: {said}")


def test_ctrl_c_ends_a_command_quietly_with_a_status_of_its_own(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({"several": "contributed:several"}, modules={"contributed": GOOD_MODULE})
    assert command.main(["several", "stop"]) == command.EXIT_STOPPED == 130
    assert capsys.readouterr() == ("", "")


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


def test_the_command_brings_no_other_package_with_it() -> None:
    rooms = ("sfumato.device_agent", "sfumato.aggregator", "sfumato.analyst")
    siblings = (*rooms, "typer", "httpx", "numpy")
    program = (
        "import sys; import sfumato.shared.command; "
        f"sys.exit(', '.join(name for name in {siblings!r} if name in sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert finished.stderr.decode().strip() == ""


def test_the_arguments_of_the_process_are_used_when_none_are_given(
    contribute: Contribute,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    contribute({"greet": "contributed:greet"}, modules={"contributed": GOOD_MODULE})
    monkeypatch.setattr(sys, "argv", ["sfumato", "greet", "Ada"])
    assert command.main() == 1
    assert capsys.readouterr().out == "hello Ada\n"


def test_no_extra_is_named_for_a_module_of_the_package_itself(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({"gone": "plotting.gone:run"}, modules={"plotting": ""}, extras=("plotting",))
    assert command.main(["gone"]) == command.EXIT_REFUSED
    message = capsys.readouterr().err
    assert "needs the module plotting.gone" in message
    assert "pip install" not in message


def test_help_works_when_nothing_is_contributed(
    contribute: Contribute, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute({}, modules={})
    assert command.main(["--help"]) == 0
    assert "none" in capsys.readouterr().out


def test_a_defect_in_a_command_is_not_taken_for_a_missing_extra(contribute: Contribute) -> None:
    contribute({"broken": "broken:run"}, modules={"broken": "raise RuntimeError('a defect')"})
    with pytest.raises(RuntimeError, match="a defect"):
        command.main(["broken"])


def test_the_packages_contribute_their_commands() -> None:
    registered = {
        name: entry.module.split(".")[1] for name, entry in command.find_commands().items()
    }
    aggregator = dict.fromkeys(["serve", "worker", "operator-key", "migrate"], "aggregator")
    analyst = dict.fromkeys(["plan", "study", "decode", "key", "audit"], "analyst")
    assert registered.items() >= (aggregator | analyst).items()


def test_help_reads_what_commands_say_of_themselves_and_imports_none() -> None:
    for entry in command.find_commands().values():
        said = command.read_summary(entry.module, entry.attr)
        assert said == command.summarise(command.load_command(entry))
    run = "import sys; from sfumato.shared.command import format_help; format_help(); "
    ask = "print([each for each in ('typer', 'numpy', 'httpx') if each in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", run + ask], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
