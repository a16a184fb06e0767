"""Photos as cells of a table: which texts are photos, where their files are, folders of photos."""

import base64
import hashlib
import os
import re
from pathlib import Path, PurePath

import pandas as pd

from bacoun.encoders.photos import PhotoError, photo_bytes

PHOTO, CLASS = "photo", "class"  # the columns of a folder of photos
_SUFFIXES = r"\.(jpe?g|png|webp|bmp|gif|tiff?|p[bgpn]m)"
_NAME = re.compile(rf"(?!.*://).*{_SUFFIXES}\s*", re.IGNORECASE | re.DOTALL)
_DATA = "data:"


def is_photo(cell: str) -> bool:
    """Whether a text is a data URI of an image, or ends like the name of a photo."""
    return cell.startswith(f"{_DATA}image/") or _NAME.fullmatch(cell) is not None


def located(cell: str, folder: str | None) -> str:
    """A photo with its path, which is relative to `folder`; None: no paths, only data URIs."""
    if cell.startswith(_DATA):
        return cell
    if folder is None:
        raise ValueError(
            "photos must be data URIs, such as 'data:image/png;base64,...', where files are not "
            f"read; got {cell!r:.80}."
        )
    return os.path.join(folder, cell.strip())


def short_name(cell: str) -> str:
    """What a photo is called: the name of its file."""
    return "a photo" if cell.startswith(_DATA) else PurePath(cell).name


def data_uri(photo: bytes, media_type: str = "image/jpeg") -> str:
    """The file of a photo as the text of a cell, or of the source of a picture."""
    return f"{_DATA}{media_type};base64,{base64.b64encode(photo).decode()}"


def content_digest(cell: str) -> str:
    """What is equal for equal photos, wherever their files are; else the cell itself."""
    try:
        return hashlib.sha256(photo_bytes(cell)).hexdigest()
    except PhotoError:
        return cell


def folder_of(table: str | os.PathLike[str]) -> str:
    """The folder that paths in a table are relative to; of a folder of photos, itself."""
    path = Path(str(table).removeprefix("file://"))
    return str(path if path.is_dir() else path.parent)


def photo_table(folder: str | os.PathLike[str]) -> pd.DataFrame:
    """The photos in a folder and its subfolders, as a table of paths relative to it, sorted.

    If all are in subfolders, the column "class" names the first subfolder of each. What is hidden,
    by a dot, is left out.
    """
    root = Path(folder)
    files = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    photos = (path for path in files if is_photo(path.name))
    paths = sorted(path for path in photos if not any(map(_is_hidden, path.parts)))
    if not paths:
        raise ValueError(
            f"'{root}' is a folder, which must hold photos, such as .jpg or .png files; it has "
            "none. Name a table in it, or choose another."
        )
    table = pd.DataFrame({PHOTO: [path.as_posix() for path in paths]}, dtype=object)
    if all(len(path.parts) > 1 for path in paths):
        table[CLASS] = pd.Series([path.parts[0] for path in paths], dtype=object)
    return table


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
