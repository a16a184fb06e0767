import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import NotFittedError
from torch import nn
from typer.testing import CliRunner

from bacoun import BaCOUnClassifier, __version__
from bacoun.boundary import CompactShell, DirectionShell, FlowShell
from bacoun.cli import app
from bacoun.export.onnx import export_onnx
from bacoun.features import LearnedFeatures, TabularFeatures
from bacoun.posterior import HMC, NUTS, Laplace, MeanField
from reproduction.datasets import gaussian_mixture

onnxruntime = pytest.importorskip("onnxruntime")

OOD = ("ood_score", "ood_probability", "rows_like_this")
PARTS = ("total", "aleatoric", "epistemic")


class Box(BaseEstimator):
    """A boundary of one's own: points on the faces of a box; it has no density."""

    def fit(self, points, labels, context):
        self.reach_ = 1.5 * points.abs().amax(dim=0)
        return self

    def sample(self, n_points, *, generator):
        places = 2 * torch.rand(n_points, len(self.reach_), generator=generator) - 1
        return places / places.abs().amax(dim=1, keepdim=True) * self.reach_


class DenseBox(Box):
    """The same with a density."""

    def log_prob(self, points):
        return -points.square().sum(dim=1)


class NumpyBox(Box):
    """The same, computed where torch cannot see it."""

    def log_prob(self, points):
        return torch.from_numpy(-(points.numpy() ** 2).sum(axis=1))


def run(path, X):
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    values = session.run(None, {"X": np.asarray(X, dtype=np.float64)})
    return dict(zip(names, values, strict=True))


def near_and_far(points, n=100):
    rng = np.random.default_rng(0)
    rows = points[rng.integers(len(points), size=n)]
    noise = rng.standard_normal(rows.shape) * points.std(axis=0)
    sizes = (0, 1, 10, 1e3, 1e8)
    return np.concatenate([rows + size * noise for size in sizes]).astype(np.float32)


def assert_agrees(model, X, path):
    """What the graph says is what `evaluate` says."""
    export_onnx(model, path)
    found, expected = run(path, X), model.evaluate(X)
    close = {"rtol": 0, "atol": 1e-4}
    np.testing.assert_allclose(found["probabilities"], expected.probabilities, **close)
    for part in PARTS:
        assert found[part].shape == (len(X),)
        np.testing.assert_allclose(found[part], getattr(expected, part), **close, err_msg=part)
    assert ("ood_score" in found) == ("ood_probability" in found) == (model.doubt_ is not None)
    if model.doubt_ is not None:
        np.testing.assert_allclose(found["ood_probability"], expected.ood_probability, **close)
        # A score has no upper end; what overflows in single precision is infinitely unfamiliar.
        score, said = (np.minimum(each, 1e30) for each in (found["ood_score"], model.ood_score(X)))
        np.testing.assert_allclose(score, said, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("ood_prior", [0.01, 0.5, 0.0])
def test_the_graph_agrees_on_the_mixture_near_and_far(mixture_model, tmp_path, ood_prior):
    X, _ = gaussian_mixture(500, 1)
    assert_agrees(mixture_model(ood_prior), near_and_far(X), tmp_path / "model.onnx")


def test_the_graph_agrees_on_the_edge(fast, moons, tmp_path):
    model = fast(standardize=False).fit(*moons)
    edge, _ = model.boundary_.sample(300, generator=torch.Generator().manual_seed(0))
    assert_agrees(model, edge.numpy(), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    "settings",
    [
        {"posterior": HMC(n_draws=40, n_chains=8, n_warmup=10, n_iterations=20)},
        {"posterior": Laplace(n_draws=40, fit_intercept=False)},
        {"boundary": None},
        {"boundary": CompactShell(shell=FlowShell(epochs=3, blocks=3))},
        {"boundary": FlowShell(epochs=3, blocks=1, per_class=False)},
        {"boundary": FlowShell(blocks=0)},
        {"boundary": FlowShell(epochs=3, blocks=2, batch_norm=True), "ood_prior": 0.0},
        {"boundary": FlowShell(epochs=3, blocks=2, batch_norm=True)},
        {"boundary": CompactShell(n_components=1, shell=FlowShell(blocks=0))},
        {"boundary": DenseBox()},
        {"posterior": MeanField(n_draws=5, n_iterations=10)},
        {"standardize": False},
        {"features": LearnedFeatures(hidden=(16, 16), epochs=20, joint_softmax=True)},
        {"features": LearnedFeatures(hidden=(8, 1024), epochs=3, dropout=0.2)},
        {"features": TabularFeatures(n_members=3, hidden=(16, 8), n_trees=20, epochs=10)},
        {"features": TabularFeatures(n_members=2, hidden=(8, 8, 4), n_trees=0, epochs=10)},
        {"posterior": Laplace(n_draws=40, prior_scale=0.2)},
    ],
    ids=[
        *("hmc", "no bias", "nlm", "compact", "one flow", "Gaussians", "batch norm, no doubt"),
        *("batch norm", "principal components", "own boundary", "mean field"),
        *("raw", "joint softmax", "wide", "tabular", "tabular without trees", "narrow"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_graph_agrees_whatever_the_steps(fast, moons, tmp_path, settings):
    model = fast(**settings).fit(*moons)
    assert_agrees(model, near_and_far(moons[0]), tmp_path / "model.onnx")


def test_the_graph_of_nuts_agrees(fast, moons, tmp_path):
    model = fast().fit(*moons)
    state = model.posterior_.get_state()  # its draws, without the time it takes to make them
    model.posterior_ = NUTS(n_draws=50).set_state(state)
    assert_agrees(model, near_and_far(moons[0]), tmp_path / "model.onnx")


@pytest.mark.parametrize("n_classes", [3, 10])
def test_the_graph_agrees_with_many_classes(fast, tmp_path, n_classes):
    X, y = make_blobs(30 * n_classes, centers=n_classes, n_features=5, random_state=0)
    assert_agrees(fast().fit(X, y), near_and_far(X), tmp_path / "model.onnx")


def test_the_graph_agrees_if_a_class_is_too_small_for_a_flow(fast, moons, tmp_path):
    X, y = moons
    rows = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:10]])
    model = fast().fit(X[rows], y[rows])
    assert [flow.blocks for flow in model.boundary_.flows_] == [2, 0]
    assert_agrees(model, near_and_far(X), tmp_path / "model.onnx")


def test_the_graph_agrees_on_one_column(fast, moons, tmp_path):
    model = fast(boundary=FlowShell(blocks=0)).fit(moons[0][:, :1], moons[1])
    assert_agrees(model, near_and_far(moons[0][:, :1]), tmp_path / "model.onnx")


def vectors(n_rows, n_classes, n_columns=140):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    return rng.normal(size=(n_classes, n_columns))[y] + 2 * rng.normal(size=(n_rows, n_columns)), y


SMALL_NETWORKS = TabularFeatures(n_members=2, hidden=(8,), n_trees=5, epochs=3)


@pytest.mark.parametrize(
    ("n_rows", "n_classes", "settings"),
    [
        (120, 2, {}),
        (120, 4, {}),
        (150, 30, {}),
        (320, 4, {}),
        (120, 4, {"ood_prior": 0.0}),
        (120, 4, {"standardize": False}),
        (120, 4, {"boundary": "direction-shell", "features": SMALL_NETWORKS}),
        (120, 4, {"posterior": MeanField(n_draws=20, n_iterations=50)}),
    ],
    ids=[
        *("two classes", "four", "many", "a covariance of each", "no doubt", "raw", "networks"),
        "mean field",
    ],
)
def test_the_graph_of_a_wide_table_agrees(tmp_path, n_rows, n_classes, settings):
    small = {"posterior": Laplace(n_draws=40), "random_state": 0}
    X, y = vectors(n_rows, n_classes)
    model = BaCOUnClassifier(**(small | settings)).fit(X, y)
    assert isinstance(model.boundary_, DirectionShell)
    far = np.concatenate([near_and_far(X), 10 * X, 0 * X[:1]])
    assert_agrees(model, far, tmp_path / "model.onnx")


def test_the_graph_of_a_wide_table_with_categories_agrees(tmp_path):
    X, y = vectors(120, 3)
    codes = np.random.default_rng(0).integers(0, 4, (120, 2))
    X = np.column_stack([codes[:, 0], X, codes[:, 1]])
    model = BaCOUnClassifier(
        categorical_features=[0, 141], posterior=Laplace(n_draws=40), random_state=0
    ).fit(X, y)
    assert list(model.doubt_.views) == ["gaussian", "length", "categories", "energy"]
    assert_agrees(model, with_unseen_codes(X, [0, 141]), tmp_path / "model.onnx")


@pytest.mark.parametrize("joint_softmax", [False, True])
def test_without_a_density_the_graph_agrees_on_the_edge(fast, moons, tmp_path, joint_softmax):
    model = fast(boundary=Box()).set_params(features__joint_softmax=joint_softmax).fit(*moons)
    assert list(model.doubt_.views) == ["boundary"]
    assert_agrees(model, near_and_far(moons[0]), tmp_path / "model.onnx")


def test_the_graph_of_images_takes_rows_of_pixels(fast, tmp_path):
    rng = np.random.default_rng(0)
    images, y = rng.normal(size=(60, 12, 12)), np.arange(60) % 2
    images[y == 1, :6] += 1
    boundary = CompactShell(n_components=3, shell=FlowShell(epochs=2, blocks=2))
    model = fast(boundary=boundary, features=LearnedFeatures(epochs=2)).fit(images, y)
    export_onnx(model, tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", images.reshape(60, -1))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(images), atol=1e-4)
    np.testing.assert_allclose(found["ood_score"], model.ood_score(images), rtol=1e-4, atol=1e-3)


def test_the_graph_keeps_the_laws_of_uncertainty(fast_model, moons, tmp_path):
    export_onnx(fast_model, tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", near_and_far(moons[0]))
    assert list(found) == ["probabilities", *PARTS, *OOD]
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, atol=1e-6)
    assert (found["epistemic"] >= 0).all()
    assert (found["total"] <= np.float32(np.log(2))).all()
    np.testing.assert_allclose(found["aleatoric"] + found["epistemic"], found["total"], atol=1e-6)
    assert ((found["ood_probability"] >= 0) & (found["ood_probability"] <= 1)).all()


def test_nan_gives_nan(fast_model, tmp_path):
    export_onnx(fast_model, tmp_path / "model.onnx")
    for name, values in run(tmp_path / "model.onnx", [[np.nan, 0.0]]).items():
        assert np.isnan(values).all(), name


def test_columns_far_from_zero_keep_their_digits(fast, moons, tmp_path):
    X = moons[0].astype(np.float32) + np.float32(4096)
    assert_agrees(fast().fit(X, moons[1]), X, tmp_path / "model.onnx")


@pytest.mark.parametrize("n_rows", [1, 7, 300])
def test_any_number_of_rows_goes_through(fast_model, tmp_path, n_rows):
    export_onnx(fast_model, tmp_path / "model.onnx")
    found = run(tmp_path / "model.onnx", np.zeros((n_rows, 2)))
    assert found["probabilities"].shape == (n_rows, 2)


def test_metadata_name_classes_and_columns(fast, moons, tmp_path):
    frame = pd.DataFrame(moons[0], columns=["length", "width"])
    model = fast().fit(frame, np.array(["ham", "spam"])[moons[1]])
    export_onnx(model, tmp_path / "named.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "named.onnx")
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["classes"]) == ["ham", "spam"]
    assert json.loads(about["feature_names"]) == ["length", "width"]
    assert about["bacoun_version"] == __version__


# --- tables ---------------------------------------------------------------------------------------


def make_table(n_rows=240, seed=0):
    """Categories, one of them with gaps, numbers, one of them with gaps, a date and a boolean."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    dose = rng.normal(kind, 1)
    dose[rng.random(n_rows) < 0.2] = np.nan
    ward = rng.choice(["A", "B", "C"], n_rows).astype(object)
    ward[rng.random(n_rows) < 0.1] = None
    days = pd.to_timedelta(rng.integers(0, 900, n_rows), "D")
    return pd.DataFrame(
        {
            "ward": ward,
            "age": rng.normal(40 + 10 * kind, 9),
            "dose": dose,
            "seen": pd.Timestamp("2020-01-01") + days,
            "smoker": rng.random(n_rows) < 0.3 + 0.2 * kind,
            "site": np.where(ward == "A", "north", rng.choice(["north", "south"], n_rows)),
            "label": kind,
        }
    )


def with_unseen_codes(points, columns, seed=1):
    """Rows of which each has one category that was not in training, then rows of only such."""
    rng = np.random.default_rng(seed)
    one, rows = points.copy(), np.arange(len(points))
    one[rows, rng.choice(columns, len(points))] = rng.choice([-1, 99, 1e6, 0.5, 1.5], len(points))
    every = points.copy()
    every[:, columns] = -1
    return np.concatenate([points, one, every])


@pytest.fixture(scope="module")
def table(fast):
    tabular = pytest.importorskip("bacoun.tabular")
    return tabular.TableModel.fit(make_table(), "label", classifier=fast())


def test_the_graph_agrees_on_a_table_of_all_kinds_of_columns(table, tmp_path):
    names = table.encoder.feature_names_
    assert {"ward", "dose missing", "seen", "seen month", "seen weekday", "smoker"} < set(names)
    assert set(table.classifier.doubt_.views) == {"density", "categories"}
    points = table.encoder.transform(make_table(100, 1))
    X = with_unseen_codes(points, table.encoder.categorical_features_)
    far = points.copy()
    far[:, names.index("age")] += 10.0 ** np.arange(1, 101).clip(max=12)
    assert_agrees(table.classifier, np.concatenate([X, far]), tmp_path / "model.onnx")


def test_every_way_to_be_unseen_is_the_same_in_the_graph(table, tmp_path):
    export_onnx(table.classifier, tmp_path / "model.onnx")
    (row,) = table.encoder.transform(make_table(1, 2))
    rows = np.tile(row, (7, 1))
    rows[:, 0] = [-1, 4, 99, 1e9, 0.5, -0.5, np.nan]
    for name, values in run(tmp_path / "model.onnx", rows).items():
        np.testing.assert_allclose(values, values[:1].repeat(7, axis=0), atol=1e-5, err_msg=name)
    known, unseen = run(tmp_path / "model.onnx", [row, rows[0]])["ood_score"]
    assert unseen > known + 1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_graph_agrees_on_a_table_of_categories_alone(fast, tmp_path, n_classes):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, size, 200) for size in (2, 3, 5, 12)]).astype(float)
    X[:, 2] = np.where(rng.random(200) < 0.9, X[:, 1], X[:, 2])
    y = (X[:, 1] + rng.integers(0, 2, 200)) % n_classes
    model = fast(categorical_features=range(4)).fit(X, y)
    assert list(model.doubt_.views) == ["categories"]
    assert_agrees(model, with_unseen_codes(X, range(4)), tmp_path / "model.onnx")


@pytest.mark.parametrize(
    "settings",
    [
        {"boundary": CompactShell(shell=FlowShell(epochs=3, blocks=2))},
        {"boundary": FlowShell(epochs=3, blocks=1, per_class=False)},
        {"boundary": FlowShell(blocks=0)},
        {"boundary": None},
        {"ood_prior": 0.0},
        {"features": LearnedFeatures(hidden=(16,), epochs=5, embedding=1, joint_softmax=True)},
        {"features": TabularFeatures(n_members=3, hidden=(16, 8), n_trees=20, epochs=10)},
    ],
    ids=["compact", "one flow", "Gaussians", "nlm", "no doubt", "joint softmax", "tabular"],
)
def test_the_graph_with_categories_agrees_whatever_the_steps(fast, moons, tmp_path, settings):
    codes = np.random.default_rng(0).integers(0, 4, (len(moons[0]), 2))
    X = np.column_stack([codes[:, 0], moons[0], codes[:, 1]])
    model = fast(categorical_features=[0, 3], **settings).fit(X, moons[1])
    assert_agrees(model, with_unseen_codes(X, [0, 3]), tmp_path / "model.onnx")


def test_a_category_may_depend_on_a_number_in_the_graph(fast, tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((300, 2))
    X = np.column_stack([numbers, numbers[:, 0] > 0.4])
    model = fast(categorical_features=[2]).fit(X, numbers[:, 1] > 0)
    assert model.boundary_.tree_.parents_ == [1]  # columns are the category, then the numbers
    cuts = model.boundary_.tree_.cuts_.numpy() * model.scale_[:2, None] + model.mean_[:2, None]
    on_cuts = np.column_stack([*cuts, np.zeros(cuts.shape[1])])
    swapped = np.column_stack([numbers, 1 - X[:, 2]])
    assert_agrees(model, np.concatenate([X, swapped, on_cuts]), tmp_path / "model.onnx")


def test_a_timestamp_in_seconds_moves_no_probability(fast, moons, tmp_path):
    """In single precision, seconds since 1970 would be rounded to minutes."""
    rng = np.random.default_rng(0)
    seconds = 1.7e9 + 1e6 * moons[0][:, 0] + rng.integers(0, 60, len(moons[0]))
    X = np.column_stack([seconds, moons[0][:, 1]])
    model = fast().fit(X, moons[1])
    rounded = np.abs(model.predict_proba(X.astype(np.float32)) - model.predict_proba(X))
    assert rounded.max() > 0
    assert_agrees(model, X, tmp_path / "model.onnx")


def test_minutes_of_a_timestamp_count(fast, tmp_path):
    """A narrow range far from zero, of which float32 would keep a few values only."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = np.column_stack([1.7e9 + 100 * y + rng.normal(0, 20, 200), rng.standard_normal(200)])
    model = fast().fit(X, y)
    rounded = model.predict_proba(X.astype(np.float32)) - model.predict_proba(X)
    assert np.abs(rounded).max() > 0.04
    assert_agrees(model, X, tmp_path / "model.onnx")


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": nn.Sequential(nn.Linear(2, 4), nn.Tanh())}, "uses torch's tanh. Fit with"),
        ({"boundary": NumpyBox()}, "uses numbers that are computed outside torch. Fit with"),
    ],
)
def test_what_cannot_be_exported_is_named_and_nothing_is_written(
    fast, moons, tmp_path, settings, words
):
    with pytest.raises(ValueError, match=words) as info:
        export_onnx(fast(**settings).fit(*moons), tmp_path / "model.onnx")
    assert "\n" not in str(info.value)
    assert list(tmp_path.iterdir()) == []


def test_a_flow_of_one_column_is_named(fast, moons, tmp_path):
    model = fast().fit(moons[0][:, :1], moons[1])
    with pytest.raises(ValueError, match="uses torch's logical_and") as info:
        export_onnx(model, tmp_path / "model.onnx")
    assert "\n" not in str(info.value)


def test_a_file_is_replaced_only_if_told(fast_model, moons, tmp_path):
    model, path = fast_model, tmp_path / "model.onnx"
    path.write_text("dear to me")
    with pytest.raises(FileExistsError, match="must not exist yet"):
        export_onnx(model, path)
    assert path.read_text() == "dear to me"
    export_onnx(model, path, overwrite=True)
    assert run(path, moons[0])["total"].shape == (120,)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        export_onnx(model, tmp_path, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


def test_an_unfitted_model_is_refused(fast, tmp_path):
    with pytest.raises(NotFittedError):
        export_onnx(fast(), tmp_path / "model.onnx")


# --- the command line -----------------------------------------------------------------------------


def test_the_verb_exports_a_classifier(fast_model, moons, tmp_path):
    fast_model.save(tmp_path / "model")
    out = tmp_path / "model.onnx"
    result = CliRunner().invoke(app, ["export", str(tmp_path / "model"), "--onnx", str(out)])
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(
        run(out, moons[0])["probabilities"], fast_model.predict_proba(moons[0]), atol=1e-4
    )


def test_the_verb_exports_the_classifier_of_a_table(fast, tmp_path):
    tabular = pytest.importorskip("bacoun.tabular")
    iris = load_iris(as_frame=True).frame
    iris["garden"] = np.where(np.arange(len(iris)) % 3 == 0, "north", "south")
    table = tabular.TableModel.fit(iris, "target", classifier=fast())
    table.save(tmp_path / "model")
    out = tmp_path / "model.onnx"
    result = CliRunner().invoke(app, ["export", str(tmp_path / "model"), "--onnx", str(out)])
    assert result.exit_code == 0, result.output
    about = onnxruntime.InferenceSession(out).get_modelmeta().custom_metadata_map
    assert json.loads(about["feature_names"]) == list(table.encoder.feature_names_)
    points = table.encoder.transform(iris)
    np.testing.assert_allclose(
        run(out, points)["probabilities"], table.classifier.predict_proba(points), atol=1e-4
    )
