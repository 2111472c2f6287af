"""Bills of materials in CycloneDX: what a package was made of, and with.

They follow from the files alone: the same package has the same bill, whoever makes it, and when.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.parser import HeaderParser
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from packageurl import PackageURL

from deploy.packages.steps import BuildError

TOOLS = ("ziglang", "setuptools", "build")
Lock = Mapping[str, tuple[str, tuple[str, ...]]]
"""By name of a library: its version, and the digests of its wheels."""


def describe_wheels(files: Sequence[Path], metadata: str, *, epoch: int) -> Bom:
    """Describe the wheels and the source distribution of one version.

    Parameters
    ----------
    files
        The built files.
    metadata
        The text METADATA of a wheel; all have the same.
    epoch
        The time of the commit, seconds since 1970.
    """
    fields = HeaderParser().parsestr(metadata)
    root = _make_library(fields["Name"], fields["Version"], licence=fields["License-Expression"])
    built = [
        Component(
            name=path.name, type=ComponentType.FILE, hashes=[_hash_file(path)], bom_ref=path.name
        )
        for path in files
    ]
    required = [_make_requirement(text) for text in fields.get_all("Requires-Dist") or ()]
    return _make_bom(root, built, required, epoch=epoch)


def describe_deb(
    package: Path, program: Path, lock: Lock, *, depends: Iterable[str], epoch: int
) -> Bom:
    """Describe a Debian package: the libraries that it brings along, and those that it needs.

    Parameters
    ----------
    program
        The folder of its libraries, each with its metadata.
    lock
        The libraries that were chosen.
    depends
        The Debian packages that it needs.
    """
    name, number, architecture = package.stem.split("_")
    root = Component(
        name=name,
        version=number,
        type=ComponentType.APPLICATION,
        hashes=[_hash_file(package)],
        bom_ref=package.name,
        purl=PackageURL("deb", None, name, number, {"arch": architecture}),
    )
    libraries = []
    for path in sorted(program.glob("*.dist-info/METADATA")):
        fields = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
        found = fields["Name"]
        _, digests = lock.get(found.lower(), ("", ()))
        libraries.append(
            _make_library(
                found,
                fields["Version"],
                licence=fields["License-Expression"] or fields["License"],
                digests=digests,
            )
        )
    return _make_bom(root, libraries, [_make_depended(each) for each in depends], epoch=epoch)


def write_bom(bom: Bom, path: Path) -> None:
    """Write a bill of materials, if the published schema allows it.

    Raises
    ------
    BuildError
        It does not.
    """
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    # It compiles grammars for a second.
    from cyclonedx.validation.json import JsonStrictValidator

    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if wrong is not None:
        raise BuildError(f"{path.name}: is no CycloneDX document: {wrong}")
    path.write_text(text + "\n", encoding="utf-8")


def _make_bom(
    root: Component, parts: Sequence[Component], needed: Sequence[Component], *, epoch: int
) -> Bom:
    # Where something was built all of them are there.
    tools = [
        Component(name=each.name, version=each.version, type=ComponentType.APPLICATION)
        for name in TOOLS
        for each in distributions(name=name)
    ]
    described = repr([(part.name, part.version, list(part.hashes)) for part in (root, *parts)])
    bom = Bom(
        components=[*parts, *needed],
        # A random one would make another file of the same package.
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"sfumato:{described}"),
        metadata=BomMetaData(
            component=root,
            timestamp=datetime.fromtimestamp(epoch, UTC),
            tools=ToolRepository(components=tools),
        ),
    )
    bom.register_dependency(root, [*parts, *needed])
    return bom


def _hash_file(path: Path) -> HashType:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def _make_library(
    name: str, number: str, *, licence: str | None, digests: Iterable[str] = ()
) -> Component:
    return Component(
        name=name,
        version=number,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}=={number}",
        purl=PackageURL("pypi", None, name.lower(), number),
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        # One wheel for each machine: the package holds one of them.
        properties=[Property(name="sfumato:wheel:sha256", value=digest) for digest in digests],
    )


def _make_requirement(text: str) -> Component:
    """Describe a requirement of a wheel, whose version its user chooses."""
    match = re.match(r"[\w.-]+", text)
    assert match is not None
    name = match[0]
    is_optional = "extra ==" in text
    return Component(
        name=name,
        type=ComponentType.LIBRARY,
        bom_ref=text,
        scope=ComponentScope.OPTIONAL if is_optional else ComponentScope.REQUIRED,
        purl=PackageURL("pypi", None, name.lower()),
        properties=[Property(name="sfumato:requirement", value=text)],
    )


def _make_depended(text: str) -> Component:
    """Describe a Debian package that must be installed, of a version that Debian chooses."""
    name = text.partition(" ")[0]
    return Component(
        name=name,
        type=ComponentType.LIBRARY,
        bom_ref=f"debian:{text}",
        scope=ComponentScope.REQUIRED,
        purl=PackageURL("deb", "debian", name),
        properties=[Property(name="sfumato:requirement", value=text)],
    )


def read_metadata(wheel: Path) -> str:
    """Return the text METADATA of a wheel."""
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return archive.read(name).decode("utf-8")
