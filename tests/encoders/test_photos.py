"""Photos of any kind are read upright and opaque; a bad one is named and nothing worse happens."""

import base64
import io
import os
import random
import struct
import subprocess
import sys
import textwrap
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from bacoun.encoders import (
    PhotoError,
    count_pixels,
    photos,
    read_photo,
    thumbnail,
    unreadable_photos,
)

CORNERS = np.uint8([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 0]]])
RED, GREEN, BLUE, YELLOW = CORNERS.reshape(4, 3)


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def noise(seed, mode="RGB", size=(64, 48)):
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], bands), dtype=np.uint8)
    return Image.frombytes(mode, size, pixels.tobytes())


def four_colors(side=32):
    return Image.fromarray(CORNERS).resize((side, side), Image.Resampling.NEAREST)


def corners(pixels):
    """Colors in the middle of the four quarters, far from edges and artifacts."""
    near, far = len(pixels) // 4, 3 * len(pixels) // 4
    return pixels[[near, near, far, far], [near, far, near, far]].astype(int)


def png_header(width, height):
    """A PNG that claims a size, with little behind it."""

    def chunk(name, body):
        check = struct.pack(">I", zlib.crc32(name + body))
        return struct.pack(">I", len(body)) + name + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = (
        chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "MPO"])
def test_formats(kind):
    options = {"lossless": True} if kind == "WEBP" else {}
    pixels = read_photo(saved(four_colors(), kind, **options), 32)
    assert (pixels.shape, pixels.dtype) == ((32, 32, 3), np.uint8)
    assert np.abs(corners(pixels) - CORNERS.reshape(4, 3)).max() < 8


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_as_the_camera_was_held(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = saved(four_colors(64), kind, exif=exif)
    expected = ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")
    found = corners(read_photo(file, 32))
    assert np.abs(found - corners(np.asarray(expected))).max() < 30
    first = {1: RED, 2: GREEN, 3: YELLOW, 4: BLUE, 5: RED, 6: BLUE, 7: YELLOW, 8: GREEN}
    assert np.abs(found[0] - first[orientation]).max() < 30


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_photo_with_damaged_exif_is_read_as_it_is(kind):
    exif = [b"MM\0*\0\0", b"\xabM\0*\0\0\0\x08\0\x03", bytes(99)]
    for damage in (b"Exif\0\0" + each for each in exif):
        pixels = read_photo(saved(four_colors(), kind, exif=damage), 32)
        assert np.abs(corners(pixels) - CORNERS.reshape(4, 3)).max() < 30


def test_the_middle_of_the_longer_side_is_kept():
    stripes = np.zeros((20, 60, 3), dtype=np.uint8)
    stripes[:, 20:40] = 200
    for pixels in (stripes, stripes.transpose(1, 0, 2)):
        read = read_photo(saved(Image.fromarray(pixels), "PNG"), 20)
        assert (read[2:-2, 2:-2] == 200).all()


def test_what_is_transparent_is_white():
    clear = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 128))
    palette = Image.new("P", (8, 8), 0)
    gray = Image.new("LA", (8, 8), (0, 0))
    assert (read_photo(saved(clear, "PNG"), 8) == 255).all()
    assert (read_photo(saved(half, "PNG"), 8) == 127).all()
    assert (read_photo(saved(palette, "PNG", transparency=0), 8) == 255).all()
    assert (read_photo(saved(palette, "GIF", transparency=0), 8) == 255).all()
    assert (read_photo(saved(gray, "PNG"), 8) == 255).all()


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_become_eight(kind):
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    pixels = read_photo(saved(Image.fromarray(ramp), kind), 8)
    assert np.abs(pixels[:, :, 0] - ramp / 257).max() <= 0.51
    assert (pixels == pixels[:, :, :1]).all()


def test_real_numbers_and_two_colors_and_cmyk_become_rgb():
    real = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    pixels = read_photo(saved(Image.fromarray(real), "TIFF"), 8)
    assert np.abs(pixels[:, :, 0] - 255 * real).max() <= 0.51
    assert (read_photo(saved(Image.new("1", (8, 8), 1), "PNG"), 8) == 255).all()
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    for kind in ("JPEG", "TIFF"):
        middle = read_photo(saved(cyan, kind), 16)[8, 8].astype(int)
        assert np.abs(middle - [0, 255, 255]).max() < 8


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_is_read(kind):
    frames = [Image.new("RGB", (16, 16), color) for color in ("red", "blue")]
    options = {"save_all": True, "append_images": frames[1:]}
    pixels = read_photo(saved(frames[0], kind, **options), 16)
    assert np.abs(pixels.astype(int) - RED).max() < 8


def test_path_bytes_and_data_uri_are_the_same_photo(tmp_path):
    content = saved(noise(0), "PNG")
    (tmp_path / "photo.png").write_bytes(content)
    uri = "data:image/png;base64," + base64.b64encode(content).decode()
    expected = read_photo(content, 24)
    for source in (tmp_path / "photo.png", str(tmp_path / "photo.png"), uri, bytearray(content)):
        np.testing.assert_array_equal(read_photo(source, 24), expected)


def test_a_large_jpeg_looks_the_same_when_decoded_small():
    image = noise(1, size=(40, 30)).resize((1600, 1200))
    small = read_photo(saved(image, "JPEG", quality=95), 64)
    whole = np.asarray(ImageOps.fit(image, (64, 64)))
    assert np.abs(small.astype(int) - whole).mean() < 3


def test_a_thumbnail_is_a_small_jpeg_of_the_whole():
    small = Image.open(io.BytesIO(thumbnail(saved(noise(0, size=(400, 100)), "PNG"), side=96)))
    assert (small.format, small.size) == ("JPEG", (96, 24))
    assert len(thumbnail(saved(noise(0, "RGBA"), "PNG"))) < 10_000


def test_reasons(tmp_path, monkeypatch):
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.png").write_text("name,age\nAda,36\n")
    os.mkfifo(tmp_path / "pipe.png")
    reasons = {
        tmp_path / "missing.png": "missing.png' must be a photo; it cannot be opened: No such file",
        tmp_path: "is a folder or device",
        tmp_path / "pipe.png": "is a folder or device",
        tmp_path / "empty.jpg": "is empty",
        tmp_path / "text.png": "is none of JPEG, PNG",
        "nul\0.png": "cannot be opened",
        "x" * 5000: "cannot be opened: File name too long",
        b"": "a photo in bytes must be a photo; it is empty",
        "data:image/png,abc": "must begin like 'data:image/png;base64,'",
        "data:image/png;base64,%%": "is not valid base64",
        "data:image/png;base64,": "is empty",
        None: "a photo must be a path, bytes or a data URI; got None",
        float("nan"): "got nan",
        png_header(60_000, 60_000): "has more than 100 million pixels",
        png_header(10_001, 10_000): "has more than 100 million pixels",
        saved(noise(0), "PNG")[:-500]: "is damaged",
        saved(noise(0), "ICO"): "is none of",
    }
    for source, reason in reasons.items():
        with pytest.raises(PhotoError) as caught:
            read_photo(source, 8)
        assert reason in str(caught.value)
        assert len(str(caught.value)) < 400
        assert "\n" not in str(caught.value)
    content = saved(noise(0), "PNG")
    (tmp_path / "large.png").write_bytes(content)
    monkeypatch.setattr(photos, "MOST_BYTES", len(content) - 1)
    uri = "data:image/png;base64," + base64.b64encode(content).decode()
    for source in (content, tmp_path / "large.png", uri):
        with pytest.raises(PhotoError, match="megabytes"):
            read_photo(source, 8)


def hostile(n=200):
    """Files by kind of attack: (name, bytes, whether it is certainly bad), from one seed."""
    rng = random.Random(0)

    def cut(i):
        kind = rng.choice(["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
        file = saved(noise(i), kind, **({"lossless": True} if kind == "WEBP" else {}))
        return file[: rng.randrange(1, int(0.9 * len(file)))], True

    def bomb(i):
        return png_header(60_000, rng.randrange(2_000, 60_000)), True

    def renamed(i):
        return rng.choice([b"%PDF-1.7 ", b"<svg>", b"PK\3\4", b"\0" * 50, b"a,b\n"]) * 9, True

    def empty(i):
        return b"", True

    def wrong_crc(i):
        file = bytearray(saved(noise(i), "PNG"))
        start = rng.choice([29, file.index(b"IDAT") + 30])  # the checksum of the header, or data
        file[start] ^= 1 + rng.randrange(255)
        return bytes(file), True

    def flipped(i):
        file = bytearray(saved(noise(i), rng.choice(["JPEG", "PNG", "GIF", "TIFF", "WEBP", "BMP"])))
        for _ in range(rng.randrange(1, 30)):
            file[rng.randrange(len(file))] = rng.randrange(256)
        return bytes(file), None

    def odd(i):
        mode, kind = rng.choice([("CMYK", "JPEG"), ("CMYK", "TIFF"), ("LA", "PNG"), ("1", "TIFF")])
        return saved(noise(i, mode) if mode != "1" else noise(i).convert("1"), kind), False

    def deep(i):
        pixels = np.random.default_rng(i).integers(0, 65536, (30, 40)).astype(np.uint16)
        return saved(Image.fromarray(pixels), rng.choice(["PNG", "TIFF"])), False

    def animated(i):
        more = {"save_all": True, "append_images": [noise(i + 1)]}
        return saved(noise(i), rng.choice(["GIF", "WEBP"]), **more), False

    def turned(i):
        exif = Image.Exif()
        exif[0x0112] = rng.randrange(0, 12)
        return saved(noise(i), "JPEG", exif=exif), False

    kinds = [cut, bomb, renamed, empty, wrong_crc, flipped, odd, deep, animated, turned]
    return [(kinds[i % len(kinds)].__name__, *kinds[i % len(kinds)](i)) for i in range(n)]


def test_each_bad_file_of_two_hundred_is_named_and_none_is_fatal(tmp_path):
    files = hostile()
    paths = [tmp_path / f"{i}-{name}.jpg" for i, (name, *_) in enumerate(files)]
    for path, (_, content, _) in zip(paths, files, strict=True):
        path.write_bytes(content)
    reasons = unreadable_photos(paths)
    for i, (name, _, is_bad) in enumerate(files):
        assert is_bad is None or (i in reasons) == is_bad, (name, i, reasons.get(i))
    assert all(paths[i].name in reason and "\n" not in reason for i, reason in reasons.items())


def test_pixels_are_counted_by_the_header_of_what_will_be_read():
    files = [png_header(9_999, 10_000), png_header(60_000, 60_000), b"", b"no photo"]
    assert list(map(count_pixels, files)) == [99_990_000, 0, 0, 0]


def test_the_largest_pictures_need_bounded_memory(tmp_path):
    """In a process that may have 1.6 gigabytes of addresses, each kind of picture is read."""
    resource = pytest.importorskip("resource")
    assert resource.RLIMIT_AS
    clear = Image.new("P", (10_000, 9_999))
    clear.save(tmp_path / "clear.png", transparency=0, compress_level=1)
    Image.new("I;16", (10_000, 9_999)).save(tmp_path / "deep.png", compress_level=1)
    (tmp_path / "bomb.png").write_bytes(png_header(60_000, 60_000))
    code = """
        import resource, sys
        from bacoun.encoders import thumbnail, unreadable_photos
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        limit = used + 1_600_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        print(sorted(unreadable_photos(sys.argv[1:])))
    """
    names = [str(tmp_path / name) for name in ("clear.png", "deep.png", "bomb.png")]
    command = [sys.executable, "-c", textwrap.dedent(code), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[2]\n", "")
