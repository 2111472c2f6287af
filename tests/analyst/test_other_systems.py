"""Client and estimators work where the modules and calls of Unix are missing, as on Windows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.shared.command import main
from sfumato.shared.core.engines import ENGINE_VARIABLE
from tests.aggregator.processes import running

PROGRAM = """
import ctypes, os, sys

class Absent:
    names = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "syslog"}

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in (
    *("fork", "forkpty", "register_at_fork", "killpg", "geteuid", "getuid", "getgid", "statvfs"),
    *("pread", "preadv", "pwrite", "sched_getaffinity", "fchmod", "O_CLOEXEC", "O_DIRECTORY"),
):
    delattr(os, name)

class Library(ctypes.CDLL):
    def __init__(self, name, *others, **options):
        if name is None:
            raise TypeError("there is no library of the process")
        super().__init__(name, *others, **options)

ctypes.CDLL = Library

import numpy as np
import sfumato
from sfumato.shared.errors import ConfigError

for name in sfumato.__all__:
    if name != "sketch_spark":  # needs Spark
        getattr(sfumato, name)

rows = np.random.default_rng(0).normal(size=(300, 2)) + 8 * (np.arange(300) % 2)[:, np.newaxis]
options = {"n_clusters": 2, "bounds": (-10, 20), "scale": 1.0, "n_jobs": -1}
found = sfumato.CompressiveKMeans(**options, random_state=0).fit(rows)
assert abs(np.sort(found.cluster_centers_[:, 0]) - [0, 8]).max() < 1

url, key, folder = sys.argv[1:]
with sfumato.Client(url, key=key) as client:
    assert list(client.studies()) == []

np.save(f"{folder}/records.npy", rows)
private = {"epsilon": "100", "ledger": f"{folder}/owner.ledger", "budget": "100"}
private |= {"source": f"{folder}/records.npy"}
try:
    sfumato.CompressiveKMeans(**options, **private).fit(rows)
except ConfigError as error:
    print(error)
"""


def test_client_and_estimators_work_without_what_unix_alone_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "aggregator.db")
    assert main(["operator-key", "--name", "me", "--json", "--database", database]) == 0
    key = json.loads(capsys.readouterr().out)["key"]
    with running("--database", database) as url:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, url, key, str(tmp_path)],
            env=os.environ | {ENGINE_VARIABLE: "numpy"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.startswith("ledger: cannot be kept: this system has no locks")
