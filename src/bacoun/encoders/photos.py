"""Read photos from anywhere, also hostile ones: a bad one is refused in one sentence.

Nothing is decoded before the header has said how large the picture is. The largest that are read
need less than two gigabytes of memory.
"""

from __future__ import annotations

import base64
import binascii
import io
import os
import stat
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image, ImageOps

MOST_PIXELS = 100_000_000
MOST_BYTES = 64_000_000  # of a file
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # JPEG includes MPO

_ORIENTATION = 0x0112  # a tag of EXIF: how the camera was held
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class PhotoError(ValueError):
    """A photo cannot be read; the sentence names it and says why."""


def read_photo(source: Any, size: int) -> np.ndarray:
    """Pixels (size, size, 3), uint8, of a photo: upright, opaque, the first frame.

    The shorter side is resized to `size`, and the middle of the longer one is kept.

    Parameters
    ----------
    source : str, path-like or bytes
        A path, the bytes of a file, or a text "data:image/png;base64,...".
    size : int
        Width and height of the result, in pixels.
    """
    square = size, size
    return np.asarray(_decoded(source, size, lambda image: ImageOps.fit(image, square)))


def thumbnail(source: Any, side: int = 96) -> bytes:
    """A small JPEG of a photo as a whole, whose longer side has at most `side` pixels."""

    def shrink(image: Image.Image) -> Image.Image:
        image.thumbnail((side, side))
        return image

    file = io.BytesIO()
    _decoded(source, side, shrink).save(file, "JPEG", quality=80)
    return file.getvalue()


def unreadable_photos(sources: Sequence[Any]) -> dict[int, str]:
    """Which photos cannot be read, by index, and why."""
    reasons = {}
    for i, source in enumerate(sources):
        try:
            read_photo(source, size=8)
        except PhotoError as error:
            reasons[i] = str(error)
    return reasons


def count_pixels(source: Any) -> int:
    """How many pixels a photo has, by its header; 0 if it will not be read."""
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        with _opened(photo_bytes(source), source) as image:
            return image.width * image.height
    return 0


def photo_bytes(source: Any) -> bytes:
    """The bytes of the file of a photo, of which it is only known that they are not too many."""
    if isinstance(source, bytes | bytearray | memoryview):
        content = bytes(source)
    elif isinstance(source, str) and source.startswith("data:"):
        content = _from_data_uri(source)
    elif isinstance(source, str | os.PathLike):
        content = _from_file(source)
    else:
        raise PhotoError(f"a photo must be a path, bytes or a data URI; got {source!r:.80}.")
    if not content:
        raise _error(source, "is empty")
    if len(content) > MOST_BYTES:
        raise _error(source, f"has more than {MOST_BYTES // 1_000_000} megabytes")
    return content


def _from_data_uri(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    if not head.endswith(";base64"):
        raise _error(uri, "must begin like 'data:image/png;base64,'")
    try:  # its first characters are enough to see that it is too long
        return base64.b64decode(body[: 4 * (MOST_BYTES // 3 + 1)], validate=True)
    except (binascii.Error, ValueError):
        raise _error(uri, "is not valid base64") from None


def _from_file(path: str | os.PathLike[str]) -> bytes:
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)  # a pipe would never end
        if is_file:
            with open(path, "rb") as file:
                return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _error(path, f"cannot be opened: {reason}") from None
    raise _error(path, "is a folder or device, not a file")


def _decoded(source: Any, size: int, shrink: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """The photo as RGB, shrunk in its own orientation and then turned upright."""
    content = photo_bytes(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _opened(content, source) as image:
                image.verify()  # the checksums of a PNG; it cannot be decoded afterwards
            with _opened(content, source) as image:
                image.draft(None, (size, size))  # a large JPEG is decoded at a fraction of its size
                image.load()
                turn = None
                with suppress(Exception):  # damage to EXIF alone does not matter
                    turn = _UPRIGHT.get(image.getexif().get(_ORIENTATION, 1))
                small = _in_color(shrink(_with_plain_mode(image)))
    except PhotoError:
        raise
    except Image.UnidentifiedImageError:
        raise _error(source, f"is none of {', '.join(FORMATS)}") from None
    except Exception as error:  # decoders raise anything on damaged files, such as IndexError
        first = (str(error).splitlines() or [""])[0].rstrip(".")
        raise _error(source, f"is damaged: {first or type(error).__name__}") from None
    return small if turn is None else small.transpose(turn)


def _opened(content: bytes, source: Any) -> Image.Image:
    """The photo, of which only the header has been read."""
    image, pixels = None, MOST_PIXELS + 1
    with suppress(Image.DecompressionBombError):
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        pixels = image.width * image.height
    if image is None or pixels > MOST_PIXELS:
        raise _error(source, f"has more than {MOST_PIXELS // 1_000_000} million pixels")
    return image


def _with_plain_mode(image: Image.Image) -> Image.Image:
    """As integers, real numbers, RGBA or RGB, which can be resized."""
    is_opaque = "transparency" not in image.info and image.mode[-1] not in "Aa"
    mode = "I" if image.mode.startswith("I") else "RGB" if is_opaque else "RGBA"
    return image if image.mode in ("F", mode) else image.convert(mode)  # which would copy it


def _in_color(image: Image.Image) -> Image.Image:
    """As RGB: 16 bits become 8, real numbers up to 1 are scaled, and the background is white."""
    if image.mode in "IF":
        shades = np.nan_to_num(np.asarray(image, dtype=np.float64))
        shades = shades / 257 if image.mode == "I" else shades * (255 if shades.max() <= 1 else 1)
        image = Image.fromarray(np.clip(shades, 0, 255).round().astype(np.uint8))
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _error(source: Any, reason: str) -> PhotoError:
    is_data = isinstance(source, str) and source.startswith("data:")
    is_path = isinstance(source, str | os.PathLike) and not is_data
    name = f"'{os.fspath(source)}'" if is_path else "a data URI" if is_data else "a photo in bytes"
    return PhotoError(f"{name[:200]} must be a photo; it {reason}.")
