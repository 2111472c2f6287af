"""The page about microcontrollers works as it stands: a PC enrols, releases, and is decoded."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from clients.c.make_plan import compile_plan
from sfumato.analyst import Client
from tests.clients.c.building import (
    EXAMPLES,
    HAS_COMPILER,
    HAS_OPENSSL,
    NO_COMPILER,
    NO_OPENSSL,
    ROOT,
    SANITISED,
    compile_c,
)
from tests.clients.c.conftest import Compile, require
from tests.clients.js.devices import make_exact_plan
from tests.system.test_tutorial import activate, read_blocks, run_shell, serving

PAGE = ROOT / "docs/how-to/microcontrollers.md"
SECTION = "## Try it on a PC"
N_SKETCHES = 6
WRONG_LINES = r"2026-01-01T00:00:00,0.4,17\n1767225600;0,4;17\n1767225600,warm,17\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout, as far as the page needs one."""
    (tmp_path / "clients").symlink_to(ROOT / "clients")
    return activate(tmp_path)


def test_the_commands_of_the_page_lead_from_a_server_to_clusters_though_the_power_fails(
    folder: Path,
) -> None:
    require(HAS_COMPILER, NO_COMPILER)
    require(HAS_OPENSSL, NO_OPENSSL)
    (_, start), *blocks = read_blocks(PAGE, "sh")[SECTION]
    with serving(folder, start) as address:
        script = "".join(text for _, text in blocks)
        # Once more at the end: nothing is released again.
        script += "meter/sensor --flash meter/flash.bin meter/records.csv\n"
        script += (
            f"printf '{WRONG_LINES}' | meter/sensor --flash meter/flash.bin || echo no records $?\n"
        )
        # Milliseconds: a sketch of that window would keep back all others.
        script += "echo 1767225600000,0.4,17 | meter/sensor --flash meter/flash.bin"
        script += ' || echo "future $?"\necho "$SFUMATO_KEY"\n'
        done = run_shell(script, folder, address)
        with Client(address, key=done.stdout.splitlines()[-1]) as client:
            study = client.study("meters")
            assert (study.n_sketches, study.n_devices) == (N_SKETCHES, 1)
            assert study.n_records == 4320
    assert "is enrolled\n" in done.stdout
    assert "status 9\n" in done.stdout
    assert "the power has failed while the flash was written" in done.stderr
    # The first run was cut before it sent anything: what it stored is sent by the second.
    sent = re.findall(r"^PUT \S+/([0-9a-f]{64}): (\d+)$", done.stderr, re.MULTILINE)
    assert [status for _, status in sent] == ["201"] * N_SKETCHES
    assert len({sketch for sketch, _ in sent}) == N_SKETCHES
    assert "left out 720 records of windows that earlier runs released" in done.stderr
    assert "left out 4320 records of windows that earlier runs released" in done.stderr
    assert "line 1: time: must be seconds since 1970; left out" in done.stderr
    assert "line 2: columns: must be the time and a number for each dimension" in done.stderr
    assert "left out 3 line(s) that hold no record" in done.stderr
    assert "no line holds a record" in done.stderr
    assert "no records 2\n" in done.stdout
    assert "future 2\n" in done.stdout
    assert "line 1: the time 1767225600000 is in the future" in done.stderr
    centres = re.findall(
        r"│ +([\d.]+)(?: ± [\d.]+)? │ +([\d.]+)(?: ± [\d.]+)? │$", done.stdout, re.M
    )
    assert sorted((round(float(p) * 2), round(float(t))) for p, t in centres) == [(1, 17), (4, 21)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, library: Compile) -> Path:
    """The device of a PC, of a plan that no server knows, with sanitizers."""
    require(HAS_OPENSSL, NO_OPENSSL)
    objects = library(SANITISED)
    folder = tmp_path_factory.mktemp("pc")
    headers = {
        "plan.h": compile_plan(make_exact_plan("PC"), bytes(32)),
        "identity.h": '#define DEVICE_ID {7}\n#define DEVICE_STREAM "sensor"\n'
        '#define DEVICE_SERVER "https://sketches.example"\n',
        "key.h": "#include <stdint.h>\nstatic const uint8_t DEVICE_KEY[32] = {7};\n",
    }
    for name, text in headers.items():
        (folder / name).write_text(text)
    sources = [EXAMPLES / name for name in ("pc_sensor.c", "network.c", "file_board.c")]
    return compile_c(folder, SANITISED, [*sources, *objects, Path("-lcrypto")], "sensor")


def run_sensor(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "--to: is missing, and https://sketches.example needs TLS"),
        (["--fast"], "--fast: is not an option"),
        (["--to", "nowhere"], "--to: must be HOST:PORT. Write for example 127.0.0.1:8760"),
        (["--to", "https://a:1"], "--to: must be HOST:PORT. Write for example 127.0.0.1:8760"),
        (["--flash"], "--flash: needs a FILE. Name one"),
        (["--to", "a:1", "--cut-power", "0"], "--cut-power: must be a number from 1"),
        (["--to", "a:1", "none.csv"], "RECORDS: cannot be read. Name a CSV file"),
    ],
)
def test_the_device_of_a_pc_refuses_wrong_arguments_with_their_name_and_the_fix(
    program: Path, words: list[str], reason: str
) -> None:
    done = run_sensor(program, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"sensor: error: {reason}")


def test_the_device_of_a_pc_releases_nothing_before_a_server_knows_it(
    program: Path, tmp_path: Path
) -> None:
    flash = str(tmp_path / "flash.bin")
    for _ in range(2):
        done = run_sensor(program, "--flash", flash, "--to", "127.0.0.1:1")
        assert done.returncode == 1
        assert "the server did not confirm this device, so nothing is released" in done.stderr
        assert "released 0 sketches so far" in done.stderr
    assert "made" not in done.stderr
    # A power that fails while the flash is formatted leaves no half device.
    (tmp_path / "flash.bin").unlink()
    assert run_sensor(program, "--flash", flash, "--to", "a:1", "--cut-power", "3").returncode == 9
    assert not (tmp_path / "flash.bin").exists()
    assert run_sensor(program, "--flash", flash, "--to", "http://127.0.0.1:1").returncode == 1
    assert (tmp_path / "flash.bin").exists()
    (tmp_path / "flash.bin").write_bytes(b"\xff" * 8192)
    done = run_sensor(program, "--flash", flash, "--to", "127.0.0.1:1")
    assert done.returncode == 2
    assert "--flash: cannot be read or written, or is not that of this device" in done.stderr
    assert "released" not in done.stderr
