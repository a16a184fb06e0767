"""Networks of photos: known classes, one answer in any company, and modules of one's own."""

import io
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images

from bacoun.encoders import EfficientNetLite0, SentenceTransformers, TimmModel, TorchModel
from bacoun.encoders.efficientnet import efficientnet_lite0
from bacoun.encoders.networks import _state


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def lite0():
    encoder = EfficientNetLite0()
    try:
        encoder._files()
    except ImportError:
        pytest.skip("the weights of EfficientNet-Lite0 are not installed")
    return encoder


@pytest.fixture(scope="module")
def photos():
    """A temple and a flower, of which there are crops as well."""
    temple, flower = load_sample_images().images
    return [png(part) for image in (temple, flower) for part in (image, image[:, 60:-60])]


def test_known_photos_get_their_classes_of_imagenet(lite0, photos):
    """The classifier of the file, which is left out otherwise, sees a palace and a daisy."""
    state = _state(*lite0._files())
    vectors = torch.from_numpy(EfficientNetLite0(224).encode(photos))
    classes = (vectors @ state["_fc.weight"].T + state["_fc.bias"]).argmax(dim=1)
    assert classes.tolist() == [698, 698, 985, 985]


def test_crops_of_a_photo_are_nearer_than_other_photos(lite0, photos):
    vectors = lite0.encode(photos)
    assert (vectors.shape, vectors.dtype) == ((4, 1280), np.float32)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = unit @ unit.T
    assert min(alike[0, 1], alike[2, 3]) > 0.7 > 0.4 > alike[:2, 2:].max()


def test_order_and_batch_do_not_change_a_vector(lite0, photos):
    vectors = lite0.encode(photos)
    many = lite0.encode([photos[i % 4] for i in range(35)])  # more than one batch
    assert np.abs(many - vectors[np.arange(35) % 4]).max() < 1e-5
    for photo, vector in zip(photos, vectors, strict=True):
        assert np.abs(lite0.encode([photo])[0] - vector).max() < 1e-5
    assert lite0.encode([]).shape == (0, 1280)


def test_weights_are_neither_pickled_nor_random(lite0, photos):
    before = torch.random.get_rng_state()
    vectors = lite0.encode(photos[:1])
    copy = pickle.dumps(lite0)
    assert len(copy) < 500
    np.testing.assert_array_equal(pickle.loads(copy).encode(photos[:1]), vectors)
    efficientnet_lite0(_state(*lite0._files()))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_encoding_leaves_the_number_of_threads(lite0, photos):
    before = torch.get_num_threads()
    lite0.encode(photos[:1])
    assert torch.get_num_threads() == before


def test_a_size_that_the_network_cannot_halve_is_refused():
    for size in (0, 100, -32):
        with pytest.raises(ValueError, match=f"size must be a multiple of 32; got {size}"):
            EfficientNetLite0(size)


OWN = """
import torch

def module():
    return torch.nn.Conv2d(3, 2, 1)
"""


def test_a_module_of_ones_own_is_named_by_a_function_and_a_file(tmp_path, monkeypatch):
    (tmp_path / "bacoun_test_own.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    weight = torch.tensor([[1.0, 0, 0], [0, 1, 1]])[:, :, None, None]
    state = {"weight": weight, "bias": torch.tensor([0.0, 1]), "head.weight": torch.ones(1)}
    torch.save(state, tmp_path / "state.pt")
    settings = {"size": 8, "mean": (0.5, 0.0, 0.0), "std": (0.5, 1.0, 1.0)}
    own = TorchModel("bacoun_test_own:module", tmp_path / "state.pt", **settings)
    before = torch.random.get_rng_state()
    found = own.encode([png(np.full((9, 12, 3), (255, 51, 102), dtype=np.uint8))])
    np.testing.assert_allclose(found, [[1, 1.6]], atol=1e-6)
    assert torch.equal(torch.random.get_rng_state(), before)
    old = own.fingerprint
    torch.save(state | {"bias": torch.tensor([5.0, 1])}, tmp_path / "state.pt")
    assert own.fingerprint != old
    again = own.encode([png(np.full((9, 12, 3), (255, 51, 102), dtype=np.uint8))])
    np.testing.assert_allclose(again, [[6, 1.6]], atol=1e-6)  # weights that changed are read anew
    torch.save({"bias": torch.zeros(2)}, tmp_path / "state.pt")
    with pytest.raises(ValueError, match=r"the weights of TorchModel.* cannot be read: Error"):
        own.encode([])
    (tmp_path / "state.pt").write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"the weights of TorchModel.* cannot be read"):
        own.encode([])
    with pytest.raises(ValueError, match=r"factory must be 'package.module:function'; got 'own'"):
        TorchModel("own", tmp_path / "state.pt").encode([])


def test_a_model_of_timm_has_the_weights_of_its_checkpoint(tmp_path, photos):
    timm = pytest.importorskip("timm")
    with torch.random.fork_rng():
        torch.save(timm.create_model("resnet10t").state_dict(), tmp_path / "state.pt")
    model = TimmModel("resnet10t", tmp_path / "state.pt", size=64)
    vectors = model.encode(photos)
    assert vectors.shape == (4, 512)
    assert model.encode(photos[::-1])[::-1] == pytest.approx(vectors, abs=1e-5)
    assert len(model.fingerprint) == 64


def test_timm_needs_to_be_told_where_the_weights_are():
    for settings in ({}, {"checkpoint": "state.pt", "pretrained": True}):
        with pytest.raises(ValueError, match="either a checkpoint or pretrained=True; got"):
            TimmModel("resnet18", **settings)


def test_a_folder_of_sentence_transformers_gives_its_own_vectors(tmp_path):
    library = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "blue"])
    )
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    with torch.random.fork_rng():
        bert = transformers.BertModel(
            transformers.BertConfig(vocab_size=6, intermediate_size=16, **sizes)
        )
    bert.save_pretrained(tmp_path / "bert")
    transformers.BertTokenizerFast(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path / "bert")
    library.SentenceTransformer(str(tmp_path / "bert"), device="cpu").save(str(tmp_path / "model"))
    each = SentenceTransformers(tmp_path / "model")
    texts = ["red", "blue red", "blue"]
    expected = library.SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(texts)
    assert each.encode(texts) == pytest.approx(expected, abs=1e-5)
    assert len(each.fingerprint) == 64
