"""What is uploaded to a cluster: a zip of this package, and one of the spec with the files it names."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from sweep.laws.parse import trace_paths
from sweep.provenance import provenance

#: Name of this project where it is installed.
PROJECT = "sqd-sweep"
#: Most bytes that a dashboard takes in one upload.
UPLOAD_LIMIT = 100 * 2**20
#: Names in the zip of the spec.
SPEC_FILE, REQUIRES_FILE, START_FILE = "spec.toml", "requires.json", "start.sh"
#: In the zip of the package: where its code comes from, as no checkout goes along.
ORIGIN_FILE = "sweep/origin.json"
#: A path that could lead out of the uploaded folder.
_OUTSIDE = re.compile(r"^/|^~|(^|/)\.\.(/|$)")

#: Starts the job with the Python that Ray itself runs in, which need not be the first on the search path:
#: of the processes above, the nearest that has loaded Ray's library tells where that lies.
START = r"""
parent=$PPID
for step in 1 2 3 4; do
    prefix=$(sed -n 's|^[^/]*\(/.*\)/lib/python[0-9.]*/site-packages/ray/_raylet\.so.*|\1|p' \
        "/proc/$parent/maps" 2>/dev/null | head -n 1)
    if [ -x "$prefix/bin/python" ]; then
        exec "$prefix/bin/python" -m sweep.engines.job_main "$@"
    fi
    parent=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$parent/status" 2>/dev/null)
done
exec python3 -m sweep.engines.job_main "$@"
"""


def package_name(content: bytes) -> str:
    """Return the name under which a cluster keeps these bytes: the same bytes are kept once."""
    return f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:32]}.zip"


def code_package() -> bytes:
    """Return this package as a zip.

    Examples
    --------
    >>> package_name(code_package()) == package_name(code_package())
    True
    """
    root = Path(__file__).resolve().parent.parent
    sources = sorted(path for path in root.rglob("*") if path.suffix in (".py", ".typed") and path.is_file())
    files = {f"sweep/{path.relative_to(root).as_posix()}": path.read_bytes() for path in sources}
    made = provenance()
    origin = {"commit": made["commit"], "modified": made["modified"]}
    return _zip({**files, ORIGIN_FILE: json.dumps(origin).encode()})


def spec_package(spec: Path) -> bytes:
    """Return a spec as a zip, with the files it names at their places below the current directory.

    Raises
    ------
    ValueError
        A file that it names lies elsewhere, or has a name that the upload needs for a file of its own, or
        together they are more than a dashboard takes.
    """
    text = spec.read_text(encoding="utf-8")
    files = {path: Path(path).read_bytes() for path in sorted(set(named_files(tomllib.loads(text))))}
    own = {**job_files(), SPEC_FILE: text.encode()}
    if taken := sorted(files.keys() & own.keys()):
        raise ValueError(
            f"files named in the spec must not be called {', '.join(sorted(own))}, got {taken[0]!r}: "
            "rename it, for a file of this name is sent along as well"
        )
    size = sum(len(content) for content in files.values())
    if size > UPLOAD_LIMIT:
        largest = max(files, key=lambda path: len(files[path]))
        raise ValueError(
            f"files named in {spec} must have at most {UPLOAD_LIMIT / 2**20:.0f} MiB together, got "
            f"{size / 2**20:.0f} MiB, the largest {largest}: leave out numbers, or save them as .npy"
        )
    return _zip({**files, **own})


def job_files() -> dict[str, bytes]:
    """Return what every job finds in its directory: how it is started, and what its Python must have."""
    return {START_FILE: START.encode(), REQUIRES_FILE: json.dumps(requirements()).encode()}


def bare_package() -> bytes:
    """Return what a job without a spec finds in its directory, as a zip."""
    return _zip(job_files())


def requirements() -> dict[str, Any]:
    """Return the Python and the packages that a cluster needs, and the versions in use here.

    Returns
    -------
    dict
        `python` (least version), `packages` (name -> [least version, first version too new or ""]) and
        `here` (name -> version).
    """
    here = {name: version for name, version in provenance()["versions"].items() if version}
    try:
        packages = {needed.name: _bounds(needed.specifier) for needed in project_requirements()}
        python = _bounds(SpecifierSet(metadata.metadata(PROJECT)["Requires-Python"]))[0]
    except metadata.PackageNotFoundError:  # run from a source folder: what is imported here has to do
        packages = {name: [version, ""] for name, version in here.items() if name not in ("python", PROJECT)}
        python = "3.11"
    return {"python": python, "packages": packages, "here": here}


def project_requirements() -> list[Requirement]:
    """Return what the installed project needs on this machine, without its extras.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        The project is not installed but found on the path.
    """
    listed = [Requirement(text) for text in metadata.requires(PROJECT) or []]
    return [needed for needed in listed if needed.marker is None or needed.marker.evaluate({"extra": ""})]


def _bounds(versions: SpecifierSet) -> list[str]:
    """Return the least version, and the first that is too new or ""."""
    found = {bound.operator: bound.version for bound in versions}
    return [found.get(">=", "0"), found.get("<", "")]


def named_files(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield the existing files that the texts of a spec name, such as `trace(times.txt)`.

    Raises
    ------
    ValueError
        One of them lies outside the current directory, which a cluster cannot see.
    """
    for text in _texts(tables):
        for path in trace_paths(text):
            if not Path(path).is_file():
                continue
            if _OUTSIDE.search(path):
                raise ValueError(
                    f"files named in the spec must lie below the current directory, got {path!r}: "
                    "copy it here and name it by its relative path, for it is sent along"
                )
            yield Path(path).as_posix()


def _texts(value: Any) -> Iterator[str]:
    """Yield every text within nested tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def _zip(files: Mapping[str, bytes]) -> bytes:
    """Return a zip whose bytes depend on names and contents alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return buffer.getvalue()
