"""SHA-256 of plain values and of files."""

import hashlib
import json
import os
from typing import Any


def checksum(content: Any) -> str:
    """Checksum of what JSON can hold; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def checksum_of_file(path: str | os.PathLike[str]) -> str:
    """Checksum of the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
