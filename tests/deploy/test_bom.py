"""Bills of materials say what is in a package, by the published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cyclonedx")

from deploy.packages.bom import describe_deb, describe_wheels, write_bom
from deploy.packages.steps import BuildError

METADATA = """\
Metadata-Version: 2.4
Name: {name}
Version: {version}
License-Expression: {licence}
Requires-Dist: numpy<3,>=2.0
Requires-Dist: httpx>=0.28; extra == "agent"

"""


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_package(folder: Path) -> Path:
    package = folder / "sfumato-agent_0.1.0-1~deb12_arm64.deb"
    package.write_bytes(b"a package")
    for name, version, licence in (("sfumato", "0.1.0", "Apache-2.0"), ("h11", "0.16.0", "MIT")):
        information = folder / f"program/{name}-{version}.dist-info"
        information.mkdir(parents=True)
        text = METADATA.format(name=name, version=version, licence=licence)
        (information / "METADATA").write_text(text)
    return package


def test_the_bill_of_a_package_names_its_libraries_and_what_it_needs(tmp_path: Path) -> None:
    package = write_package(tmp_path)
    lock = {"h11": ("0.16.0", ("ab" * 32,))}
    for name in ("first", "second"):
        bom = describe_deb(
            package, tmp_path / "program", lock, depends=["python3 (>= 3.11)"], epoch=1_800_000_000
        )
        write_bom(bom, tmp_path / f"{name}.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    found = read(tmp_path / "first.json")
    assert found["metadata"]["timestamp"].startswith("2027-01-15T08:00:00")
    assert found["metadata"]["component"]["purl"].startswith("pkg:deb/sfumato-agent@0.1.0-1")
    parts = {part["name"]: part for part in found["components"]}
    assert parts.keys() == {"sfumato", "h11", "python3"}
    assert parts["h11"]["purl"] == "pkg:pypi/h11@0.16.0"
    assert parts["h11"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert parts["h11"]["properties"] == [{"name": "sfumato:wheel:sha256", "value": "ab" * 32}]
    assert "version" not in parts["python3"]


def test_the_bill_of_wheels_names_files_and_requirements(tmp_path: Path) -> None:
    wheel = tmp_path / "sfumato-0.1.0-cp311-abi3-manylinux_2_17_x86_64.whl"
    wheel.write_bytes(b"a wheel")
    metadata = METADATA.format(name="sfumato", version="0.1.0", licence="Apache-2.0")
    write_bom(describe_wheels([wheel], metadata, epoch=0), tmp_path / "bom.json")
    parts = {part["name"]: part for part in read(tmp_path / "bom.json")["components"]}
    assert parts[wheel.name]["hashes"][0]["alg"] == "SHA-256"
    assert (parts["numpy"]["scope"], parts["httpx"]["scope"]) == ("required", "optional")


def test_a_bill_that_the_schema_refuses_is_not_written(tmp_path: Path) -> None:
    bom = describe_deb(write_package(tmp_path), tmp_path / "program", {}, depends=[], epoch=0)
    bom.version = -1
    with pytest.raises(BuildError, match="is no CycloneDX document"):
        write_bom(bom, tmp_path / "bom.json")
    assert not (tmp_path / "bom.json").exists()
