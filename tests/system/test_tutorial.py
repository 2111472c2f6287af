"""The tutorials work as they stand: their blocks are run in their order, as a new user would."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.demo.cluster import BIN
from sfumato.analyst import Client
from tests.device_agent.daemons import wait_until
from tests.forking import put_programs
from tests.ports import hold_port, port_of

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TUTORIALS = [
    ROOT / "docs" / "tutorials" / name
    for name in ("first-study.md", "device.md", "campaign.md", "analyst.md")
]
SERVER, CLEAN_UP = "## A server", "## Clean up"
ADDRESS = "http://127.0.0.1:8750"


def read_blocks(document: Path, language: str = "sh|python") -> dict[str, list[tuple[str, str]]]:
    """Return the blocks under each heading: language and text."""
    blocks: dict[str, list[tuple[str, str]]] = {}
    heading = ""
    pattern = re.compile(rf"^(## [^\n]+)$|^```({language})\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for title, kind, text in pattern.findall(document.read_text(encoding="utf-8")):
        heading = title or heading
        if kind:
            blocks.setdefault(heading, []).append((kind, text))
    return blocks


def read_commands(document: Path) -> list[str]:
    """Return the commands of a document's shell blocks, without comments and line ends."""
    shell = "".join(text for blocks in read_blocks(document, "sh").values() for _, text in blocks)
    lines = re.sub(r"\\\n\s*", "", shell).splitlines()
    return [command for line in lines if (command := re.sub(r"\s+#.*", "", line).strip())]


def activate(folder: Path) -> Path:
    """Let a folder have the environment that a checkout has."""
    script = folder / ".venv" / "bin" / "activate"
    script.parent.mkdir(parents=True)
    script.write_text(f'PATH="{script.parent}:{BIN}:$PATH"\nexport PATH\n')
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout, as far as the tutorials need one."""
    shutil.copytree(ROOT / "deploy" / "demo", tmp_path / "deploy" / "demo")
    return activate(tmp_path)


@contextmanager
def serving(folder: Path, start: str) -> Iterator[str]:
    """Run the block of a page that starts a server, on a port of its own; yield its address."""
    options = put_programs(folder / ".venv" / "bin")
    with hold_port() as held:
        address = f"http://127.0.0.1:{port_of(held)}"
        options["env"]["SFUMATO_PORT"] = str(port_of(held))
        server = subprocess.Popen(
            ["sh", "-euc", start.replace("sfumato serve", "exec sfumato serve")],
            **options,
            cwd=folder,
            stderr=subprocess.DEVNULL,
        )
        try:
            with Client(address) as client:
                wait_until(lambda: client.is_ready() or server.poll() is not None)
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait() == 0


def run_shell(script: str, folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    options = put_programs(folder / ".venv" / "bin")
    options["env"]["SFUMATO_URL"] = address
    done: subprocess.CompletedProcess[str] = subprocess.run(
        ["sh", "-euc", script],
        **options,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done


def to_script(blocks: Iterable[tuple[str, str]]) -> str:
    """Join blocks of shell and of Python to one script."""
    return "".join(
        text if kind == "sh" else f"python - <<'END'\n{text}END\n" for kind, text in blocks
    )


def test_every_block_of_the_tutorials_works_as_it_stands(folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    first, *others = map(read_blocks, TUTORIALS)
    (start,), (clean_up,) = first.pop(SERVER), others[-1].pop(CLEAN_UP)
    # The readme's program differs in what it prints.
    pages = (first, *others, read_blocks(README, "python"))
    script = to_script(block for page in pages for section in page.values() for block in section)
    # Later in the same shell: what was read is released and sent no second time.
    script += 'echo "AGAIN"; sfumato-agent init --code "$CODE"; sfumato-agent once --json\n'
    script += 'echo "KEY $SFUMATO_KEY"\n'
    with serving(folder, start[1]) as address:
        said = run_shell(script.replace(ADDRESS, address), folder, address).stdout
        before_that, _, again = said.partition("AGAIN\n")
        assert before_that.count("is enrolled in study") == 7
        assert "FAIL" not in before_that
        assert "was enrolled already" in again
        report, key = again.splitlines()[-2:]
        assert json.loads(report)["released"] == 0
        with Client(address, key=key.removeprefix("KEY ")) as client:
            study = client.study("weather")
        assert study.n_sketches == 4
        assert study.n_records is not None
        assert study.n_records > 8000
    run_shell(clean_up[1], folder, address)
    assert {path.name for path in folder.iterdir()} == before


def test_every_command_of_the_readme_stands_in_the_tutorials() -> None:
    commands = read_commands(README)
    assert len(commands) > 8
    known = {command for page in TUTORIALS for command in read_commands(page)}
    assert set(commands) <= known
