import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from torch import nn

from bacoun import BaCOUnClassifier
from bacoun.boundary import sample_shell
from bacoun.posterior import HMC, NUTS, Laplace, MeanField

HEADS = {
    "hmc": HMC(n_draws=40, n_chains=32, n_warmup=20, n_iterations=40),
    "laplace": Laplace(n_draws=40),
    "nuts": NUTS(n_draws=40, n_chains=2, n_warmup=20, n_iterations=40),
    "mean-field": MeanField(n_draws=40, n_iterations=200),
}
GRID = np.random.default_rng(0).uniform(-4, 4, (50, 2))


class OwnShell(BaseEstimator):
    def fit(self, points, labels, context):
        self.center_ = points.mean(dim=0)
        return self

    def sample(self, n_points, *, generator):
        return self.center_ + sample_shell(n_points, 2, (3.0, 3.1), generator=generator)


def own_body(width=12):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh())


@pytest.fixture(scope="module")
def saved(fast, moons, tmp_path_factory):
    model = fast().fit(*moons)
    path = tmp_path_factory.mktemp("saved") / "model"
    model.save(path)
    return model, path


@pytest.fixture
def folder(saved, tmp_path):
    saved[0].save(tmp_path / "model")
    return tmp_path / "model"


def assert_same(one, two, X):
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    for joint in (False, True):
        np.testing.assert_array_equal(
            one.predict_proba_samples(X, joint=joint), two.predict_proba_samples(X, joint=joint)
        )
    pd.testing.assert_frame_equal(
        one.uncertainty(X, split=True).to_frame(),
        two.uncertainty(X, split=True).to_frame(),
        check_exact=True,
    )
    np.testing.assert_array_equal(one.ood_score(X), two.ood_score(X))
    assert one.doubt_ == two.doubt_
    if one.doubt_ is not None:
        np.testing.assert_array_equal(one.ood_probability(X), two.ood_probability(X))
    if one.boundary_ is not None:
        np.testing.assert_array_equal(one.region_proba(X), two.region_proba(X))
        np.testing.assert_array_equal(one.log_density(X), two.log_density(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("ood_prior", [0.01, 0])
@pytest.mark.parametrize("head", HEADS)
def test_a_loaded_model_answers_to_the_bit(fast, moons, tmp_path, head, ood_prior):
    model = fast(posterior=HEADS[head], ood_prior=ood_prior).fit(*moons)
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    assert_same(model, loaded, GRID)
    assert loaded.health_ == model.health_
    np.testing.assert_array_equal(loaded.mean_, model.mean_)


def test_a_loaded_model_remembers_its_outliers(fast, moons, tmp_path):
    model = fast(contamination=np.float64(0.1)).fit(*moons)
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    assert loaded.contamination == 0.1
    np.testing.assert_array_equal(loaded.outliers_, model.outliers_)
    assert loaded.outliers_.dtype == model.outliers_.dtype
    assert_same(model, loaded, GRID)


def test_a_loaded_neural_linear_model_answers_to_the_bit(fast, moons, tmp_path):
    model = fast(boundary=None).fit(*moons)
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    assert loaded.boundary_ is None
    assert_same(model, loaded, GRID)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["ham", "späm"]),
        np.array(["ham", "spam"], dtype=object),
        np.array([False, True]),
        np.array([3, 7], dtype=np.int8),
        np.array([0.0, 1.0]),
    ],
    ids=["str", "object", "bool", "int8", "float"],
)
def test_classes_and_feature_names_survive(fast, moons, tmp_path, labels):
    X, y = moons
    frame = pd.DataFrame(X, columns=["length", "wïdth"])
    model = fast().fit(frame, labels[y])
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    assert [type(label) for label in loaded.classes_] == [type(label) for label in model.classes_]
    assert list(loaded.feature_names_in_) == ["length", "wïdth"]
    assert loaded.n_features_in_ == 2
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[["wïdth", "length"]])


def test_a_loaded_model_can_be_fitted_again_with_its_settings(saved, moons):
    model, path = saved
    loaded = BaCOUnClassifier.load(path)
    assert loaded.get_params()["boundary__epochs"] == model.boundary.epochs
    assert_same(loaded.fit(*moons), model, GRID)


@pytest.mark.parametrize(
    "class_weight", [None, "balanced", {0: 3.0}, {np.int64(1): np.float64(0.5), 0: 2}]
)
def test_a_loaded_model_remembers_its_class_weight(fast, moons, tmp_path, class_weight):
    model = fast(class_weight=class_weight).fit(*moons)
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model")
    assert loaded.class_weight == class_weight
    updated = loaded.set_params(random_state=0).update(*moons)
    assert_same(updated, model.set_params(random_state=0).update(*moons), GRID)


def test_a_loaded_model_can_be_saved_again(saved, tmp_path):
    model, path = saved
    BaCOUnClassifier.load(path).save(tmp_path / "again")
    assert_same(BaCOUnClassifier.load(tmp_path / "again"), model, GRID)


def test_loading_leaves_torchs_stream_as_it_was(saved):
    before = torch.get_rng_state()
    BaCOUnClassifier.load(saved[1])
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_with_numpy_settings_from_a_grid_search_can_be_saved(fast, moons, tmp_path):
    grid = {"posterior__n_draws": np.arange(10, 30, 10), "n_boundary": np.array([40, 60])}
    best = GridSearchCV(fast(), grid, cv=2).fit(*moons).best_estimator_
    best.save(tmp_path / "best")
    assert_same(BaCOUnClassifier.load(tmp_path / "best"), best, GRID)


def test_the_folder_holds_json_and_safetensors_and_no_pickle(saved):
    files = sorted(file.name for file in saved[1].iterdir())
    assert files == ["model.json", "model.safetensors"]
    json.loads((saved[1] / "model.json").read_text())
    for file in saved[1].iterdir():
        head = file.read_bytes()[:16]
        assert not head.startswith((b"\x80", b"PK"))  # a pickle, torch's zip of pickles


def test_a_folder_that_exists_is_not_touched_unless_told(saved, folder):
    before = (folder / "model.json").read_bytes()
    with pytest.raises(FileExistsError, match=r"Choose another, or pass overwrite=True\.") as info:
        saved[0].save(folder)
    assert "\n" not in str(info.value)
    assert (folder / "model.json").read_bytes() == before
    saved[0].save(folder, overwrite=True)
    assert_same(BaCOUnClassifier.load(folder), saved[0], GRID)
    assert [item.name for item in folder.parent.iterdir()] == ["model"]


def test_saving_before_fit_writes_nothing(fast, tmp_path):
    with pytest.raises(NotFittedError):
        fast().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def refusal(path):
    with pytest.raises((ValueError, FileNotFoundError)) as info:
        BaCOUnClassifier.load(path)
    assert "\n" not in str(info.value)
    return str(info.value)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_truncated_file_is_refused(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    message = refusal(folder)
    assert name in message
    assert "save the model again" in message


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    assert f"has no {name}" in refusal(folder)


def test_changed_settings_are_refused(folder):
    document = json.loads((folder / "model.json").read_text())
    document["settings"]["ood_prior"] = 0.5
    (folder / "model.json").write_text(json.dumps(document))
    assert "was changed after saving" in refusal(folder)


def test_one_changed_bit_of_a_tensor_is_refused(folder):
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-10] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    assert "was changed after saving" in refusal(folder)


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_folder_of_another_format_is_refused(folder, version):
    document = json.loads((folder / "model.json").read_text())
    assert document["format"] == 3
    document["format"] = version
    (folder / "model.json").write_text(json.dumps(document))
    message = refusal(folder)
    assert f"has format {version}, this version of bacoun reads 3." in message
    assert "Fit the model again, or install the version of bacoun that wrote it." in message


def test_a_path_without_a_model_is_refused(tmp_path):
    assert "has no model.json" in refusal(tmp_path / "nowhere")


@pytest.mark.parametrize("limit", [1000, 8000])
def test_a_disk_that_fills_while_saving_leaves_nothing_half_written(
    saved, tmp_path, full_disk, limit
):
    model, path = saved
    assert (path / "model.safetensors").stat().st_size > limit
    with full_disk(limit), pytest.raises(Exception, match="File too large"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_boundary_of_ones_own_is_refused_in_one_sentence(fast, moons, tmp_path):
    model = fast(boundary=OwnShell()).fit(*moons)
    with pytest.raises(ValueError, match=r"to be saved; got OwnShell\. .* joblib\.dump") as info:
        model.save(tmp_path / "model")
    assert "\n" not in str(info.value)
    assert list(tmp_path.iterdir()) == []


def test_a_body_of_ones_own_is_saved_and_loaded_with_its_code(fast, moons, tmp_path):
    model = fast(features=own_body()).fit(*moons)
    model.save(tmp_path / "model")
    loaded = BaCOUnClassifier.load(tmp_path / "model", body=own_body())
    assert_same(model, loaded, GRID)


def test_loading_without_the_body_says_what_to_do(fast, moons, tmp_path):
    fast(features=own_body()).fit(*moons).save(tmp_path / "model")
    assert "Use load(path, body=...)" in refusal(tmp_path / "model")


def test_loading_with_another_body_says_so(fast, moons, tmp_path):
    fast(features=own_body()).fit(*moons).save(tmp_path / "model")
    with pytest.raises(ValueError, match="body must be built like the one") as info:
        BaCOUnClassifier.load(tmp_path / "model", body=own_body(width=13))
    assert "\n" not in str(info.value)
