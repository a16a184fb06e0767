"""Encoders are their settings: compared, pickled and stored by them; weights are told apart."""

import dataclasses
import hashlib
import json
import pickle
import subprocess
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from sklearn.base import clone

from bacoun.encoders import (
    KINDS,
    EfficientNetLite0,
    Encoder,
    HasSpec,
    MiniLM,
    MissingPackageError,
    OnnxModel,
    SentenceTransformers,
    TimmModel,
    TorchModel,
    as_encoder,
    encoder,
    from_spec,
)

SETTINGS = {
    "minilm": {},
    "efficientnet-lite0": {"size": 64},
    "onnx": {"path": "model.onnx", "size": 8, "mean": (0.0, 0.0, 0.0)},
    "sentence-transformers": {"name": "folder"},
    "torch": {"factory": "package:function", "state": "state.pt"},
    "timm": {"name": "resnet18", "checkpoint": "state.pt"},
}


@pytest.fixture(params=KINDS)
def each(request):
    return KINDS[request.param](**SETTINGS[request.param])


def test_encoders_are_named_compared_copied_and_pickled_by_their_settings(each):
    assert KINDS[each.kind] is type(each)
    assert isinstance(each, Encoder)
    settings = json.loads(json.dumps(dataclasses.asdict(each)))
    for copy in (pickle.loads(pickle.dumps(each)), clone(each, safe=False), type(each)(**settings)):
        assert copy == each
        assert hash(copy) == hash(each)
    assert len(pickle.dumps(each)) < 500


def test_a_name_stands_for_an_encoder_and_others_are_refused():
    assert as_encoder("minilm") == MiniLM()
    assert as_encoder(EfficientNetLite0(224)) == EfficientNetLite0(224)
    with pytest.raises(ValueError, match=r"one of minilm, efficientnet-lite0.*got 'bert'"):
        as_encoder("bert")
    with pytest.raises(ValueError, match=r"'onnx' has settings without .*; pass OnnxModel\(...\)"):
        as_encoder("onnx")
    with pytest.raises(ValueError, match="have a method encode; got 3"):
        as_encoder(3)


def test_specs_are_plain_and_make_the_same_encoder(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"one")
    for each in (MiniLM(), EfficientNetLite0(96), OnnxModel(tmp_path / "model.onnx", size=8)):
        assert isinstance(each, HasSpec)
        spec = json.loads(json.dumps(each.spec))
        assert from_spec(spec) == each
        assert from_spec(spec).spec == each.spec


def test_other_weights_than_at_the_fit_are_refused(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"one")
    spec = OnnxModel(file, size=8).spec
    file.write_bytes(b"other")
    with pytest.raises(ValueError, match=r"must have the weights of the fit.*got [0-9a-f]{12}\."):
        from_spec(spec)
    with pytest.raises(ValueError, match="must have the weights of the fit"):
        from_spec(MiniLM().spec | {"fingerprint": "0" * 64})
    file.unlink()
    with pytest.raises(ValueError, match=r"model.onnx' must hold an encoder; it cannot be read"):
        from_spec(spec)


def test_external_weights_of_an_onnx_file_belong_to_its_fingerprint(tmp_path):
    (tmp_path / "model[1].onnx").write_bytes(b"graph")
    found = []
    for external in (None, b"1", b"22"):
        if external is not None:
            (tmp_path / "model[1].onnx_data").write_bytes(external)
        found.append(OnnxModel(tmp_path / "model[1].onnx", size=8).fingerprint)
    assert found[0] == hashlib.sha256(b"graph").hexdigest()
    assert len({*found}) == 3


def test_incomplete_specs_are_refused():
    for spec in ({}, {"kind": "minilm"}, MiniLM().spec | {"settings": {"size": 3}}):
        with pytest.raises(ValueError, match="was not stored completely"):
            from_spec(spec)


def test_a_spec_neither_runs_code_nor_downloads_unless_it_is_trusted(tmp_path):
    (tmp_path / "state.pt").write_bytes(b"weights")
    own = TorchModel("package:function", tmp_path / "state.pt")
    for each in (own, TimmModel("resnet18", pretrained=True), SentenceTransformers("some/name")):
        assert each.needs_trust
        spec = {"kind": each.kind, "settings": dataclasses.asdict(each), "fingerprint": "0"}
        with pytest.raises(ValueError, match="only if trusted is True"):
            from_spec(spec)
    assert from_spec(own.spec, trusted=True) == own
    assert not SentenceTransformers(tmp_path).needs_trust


def test_packaged_weights_that_differ_from_the_pinned_ones_are_refused(tmp_path, monkeypatch):
    (tmp_path / "model.onnx").write_bytes(b"not MiniLM")
    monkeypatch.setattr(MiniLM, "_files", lambda self: [tmp_path / "model.onnx"])
    with pytest.raises(ValueError, match=r"the weights of 'minilm' must have the checksum .* got"):
        MiniLM().encode(["a"])


def test_a_missing_package_is_one_sentence_with_the_command(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(encoder, "distribution", missing)
    for each, extra in ((MiniLM(), "text"), (EfficientNetLite0(), "images")):
        with pytest.raises(MissingPackageError, match=rf"pip install 'bacoun\[{extra}\]'\.$"):
            each.encode([])
    monkeypatch.undo()
    for name in ("onnxruntime", "tokenizers", "timm", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    command = r"needs sentence_transformers, which is not installed: pip install sentence-transf"
    with pytest.raises(ImportError, match=command):
        SentenceTransformers("some/name").encode(["a"])
    with pytest.raises(ValueError, match=r"'timm' needs timm, .* pip install timm\."):
        TimmModel("resnet18", pretrained=True).encode([])
    with pytest.raises(ValueError, match=r"'minilm' needs .* pip install 'bacoun\[text\]'\."):
        MiniLM()._load()


def test_the_room_is_entered_without_torch():
    heavy = {"torch", "onnxruntime", "tokenizers"}
    code = f"import bacoun.encoders, sys; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_anything_with_encode_is_an_encoder():
    class Lengths:
        def encode(self, items):
            return np.float32([[len(item)] for item in items])

    assert isinstance(as_encoder(Lengths()), Encoder)
    assert not isinstance(Lengths(), HasSpec)
    assert not isinstance(object(), Encoder)
