"""A fit to files larger than memory: networks learn from a sample, the posterior from all rows."""

import numpy as np
import pandas as pd
import pytest
import torch

from bacoun import BaCOUnClassifier
from bacoun.boundary import DirectionShell
from bacoun.features import LinearFeatures
from bacoun.files.checkpoint import Checkpoint
from bacoun.many.cluster import Engine
from bacoun.many.out_of_core import FeatureSource
from bacoun.posterior import Laplace
from bacoun.prediction import features_of
from bacoun.protocols import FitContext
from bacoun.tabular import TableModel, fit_files

N, N_FILES = 2400, 2
RNG = np.random.default_rng(0)


def make_table():
    kind = RNG.integers(0, 3, N)
    return pd.DataFrame(
        {
            "id": [f"P{i:05}" for i in range(N)],
            "x": RNG.normal(2 * kind, 1),
            "y": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(-kind, 1)),
            "ward": RNG.choice(["A", "B", "C"], N),
            "label": np.array(["high", "low", "mid"])[kind],
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def pattern(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for number, rows in enumerate(np.array_split(np.arange(N), N_FILES)):
        TABLE.iloc[rows].to_parquet(folder / f"{number}.parquet", row_group_size=300, index=False)
    return f"{folder}/*.parquet"


@pytest.fixture(scope="module")
def model(fast, pattern):
    classifier = fast(posterior=Laplace(n_draws=200))
    return fit_files(pattern, "label", sample_rows=500, classifier=classifier)


def test_all_rows_are_counted_and_a_part_of_them_is_learned_from(model):
    facts = model.facts
    assert facts["rows"] == N
    assert facts["classes"] == TABLE["label"].value_counts().sort_index().to_dict()
    assert facts["training_rows"] + facts["calibration_rows"] == N
    assert facts["sampled_rows"] == pytest.approx(500, rel=0.2)
    assert facts["dropped_columns"] == {"id": "id"}
    assert model.classifier.health_.coreset_rows == facts["sampled_rows"]
    assert model.classifier.health_.coreset_difference < 0.5


def test_the_posterior_is_that_of_all_training_rows(model):
    """Compared with one of all rows, in memory; a fifth of them is held out."""
    classifier, scored = model.classifier, model.score(TABLE)
    points = classifier._standardized(model.encoder.transform(TABLE))
    features = features_of(classifier.features_, points, seen=True)
    labels = torch.from_numpy(np.searchsorted(classifier.classes_, TABLE["label"]))
    means = {}
    for name, rows in {"all": slice(None), "few": slice(500)}.items():
        head = Laplace(prior_scale=classifier.health_.prior_scale, n_draws=1000)
        head.fit(
            features[rows], labels[rows], FitContext(generator=torch.Generator().manual_seed(0))
        )
        means[name] = head.predict_moments(features)[0].numpy()
    found = classifier.posterior_.predict_moments(features)[0].numpy()
    error = np.abs(found - means["all"]).mean()
    assert (
        error < 0.5 * np.abs(means["few"] - means["all"]).mean()
    )  # 80 % of all rows are trained on
    assert (scored["prediction"] == TABLE["label"]).mean() > 0.75


def test_it_is_a_model_as_any_other(model, tmp_path):
    model.save(tmp_path / "model")
    again, rows = TableModel.load(tmp_path / "model"), TABLE.head(50)
    pd.testing.assert_frame_equal(again.score(rows, because=True), model.score(rows, because=True))
    assert again.classifier.health_ == model.classifier.health_
    far = rows.assign(x=99.0)
    assert set(again.score(far)["reason"]) == {"unfamiliar"}
    assert again.explain(far.head(1))[0].surprises[0].column == "x"
    falsely_unfamiliar = (model.score(TABLE)["reason"] == "unfamiliar").mean()
    assert falsely_unfamiliar < 0.08


def test_two_workers_fit_the_same_model(cluster, fast, model, pattern):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as client:
        there = fit_files(
            pattern,
            "label",
            sample_rows=500,
            classifier=fast(posterior=Laplace(n_draws=200)),
            engine=Engine(client),
        )
    assert there.facts == model.facts
    scores, expected = there.score(TABLE), model.score(TABLE)
    pd.testing.assert_frame_equal(scores, expected, rtol=0, atol=1e-6)


def test_features_are_computed_once_and_not_again_after_an_interruption(
    fast, pattern, tmp_path, monkeypatch
):
    """Each pass reads them; so does a fit that is killed in step 3 and resumed."""
    made, make = [], FeatureSource._made

    def counted(*arguments):
        made.append(1)
        return make(*arguments)

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(FeatureSource, "_made", counted)
    options = {"sample_rows": 500, "checkpoint": tmp_path / "checkpoint"}
    with monkeypatch.context() as patched:
        patched.setattr(Laplace, "_sample", killed)
        with pytest.raises(KeyboardInterrupt):
            fit_files(pattern, "label", classifier=fast(), **options)
    fit_files(pattern, "label", classifier=fast(), **options)
    assert len(made) == 8  # row groups
    Checkpoint(options["checkpoint"]).clear()  # and close its lock


def test_few_rows_are_fitted_as_a_table_in_memory(fast, pattern):
    of_files = fit_files(pattern, "label", classifier=fast())
    of_table = TableModel.fit(TABLE, "label", classifier=fast())
    assert of_files.facts == of_table.facts
    pd.testing.assert_frame_equal(of_files.score(TABLE), of_table.score(TABLE))


def test_a_group_is_trained_on_or_calibrated_on(fast, tmp_path):
    table = TABLE.drop(columns="id").assign(patient=np.arange(N) // 4)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    found = fit_files(
        [f"{tmp_path}/rows.parquet"], "label", group="patient", sample_rows=500, classifier=fast()
    )
    assert found.facts["calibration_rows"] == pytest.approx(0.2 * N / 4, rel=0.25)
    assert "patient" not in found.encoder.feature_names_


# --- what is refused ------------------------------------------------------------------------------


def assert_refused(tmp_path, table, message, **options):
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    with pytest.raises(ValueError, match=message):
        fit_files(f"{tmp_path}/*.parquet", "label", **{"sample_rows": 500} | options)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_bad_rows_are_refused_with_their_place(tmp_path):
    bad = TABLE.assign(x=TABLE["x"].where(TABLE.index != 1500, np.inf))
    assert_refused(tmp_path, bad, r"row group 1 of '.*': columns must hold finite numbers; 'x'")
    bad = TABLE.assign(label=TABLE["label"].where(TABLE.index != 2300, None))
    assert_refused(tmp_path, bad, r"row group 2 of '.*': column 'label' must have a label")


def test_a_class_that_the_sample_hardly_has_is_named(tmp_path):
    rare = TABLE.assign(label=TABLE["label"].where(TABLE.index >= 8, "odd"))
    assert_refused(tmp_path, rare, "at least 5 rows in the sample.*'odd' has 8 of 2,400 rows")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time": "x"}, "time needs all rows in memory, at most 625; got 2,400"),
        ({"sample_rows": 0}, "sample_rows must be at least 1; got 0"),
        ({"random_state": -1}, "random_state must be from 0 to 4294967295; got -1"),
        ({"calibration_share": 2.0}, "calibration_share must"),
        ({"group": "nothing"}, "group must be a column of the table; 'nothing' is not"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, message):
    assert_refused(tmp_path, TABLE, message, **options)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"contamination": 0.1}, "must be without contamination"),
        ({"class_weight": "balanced"}, "must be without class_weight"),
    ],
)
def test_what_needs_all_rows_in_memory_is_refused(fast, tmp_path, changed, message):
    assert_refused(tmp_path, TABLE, message, classifier=fast(**changed))


def test_a_misspelled_setting_is_refused_before_anything_is_read():
    with pytest.raises(TypeError, match="'quik'"):
        fit_files("nowhere/*.parquet", "label", quik=True)


def test_files_must_have_the_same_columns(tmp_path):
    TABLE.to_parquet(tmp_path / "a.parquet")
    TABLE.drop(columns="y").to_parquet(tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"same columns; '.*b.parquet' and '.*' differ in 'y'"):
        fit_files(f"{tmp_path}/*.parquet", "label", sample_rows=500)


def test_a_wide_table_is_learned_by_directions_and_its_posterior_from_all_rows(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.arange(1500) % 3
    X = 0.25 * rng.normal(size=(3, 140))[kind] + rng.normal(size=(1500, 140))
    table = pd.DataFrame(X, columns=[f"v{i}" for i in range(140)])
    table = table.assign(label=np.array(["a", "b", "c"])[kind])
    for number in range(2):
        rows = table.iloc[number::2]
        rows.to_parquet(tmp_path / f"{number}.parquet", row_group_size=300, index=False)
    settings = {"classifier": BaCOUnClassifier(posterior=Laplace(n_draws=50), random_state=0)}
    model = fit_files(f"{tmp_path}/*.parquet", "label", sample_rows=300, **settings)
    classifier, scored = model.classifier, model.score(table)
    assert isinstance(classifier.features_, LinearFeatures)
    assert isinstance(classifier.boundary_, DirectionShell)
    assert classifier.health_.coreset_rows == model.facts["sampled_rows"] < 700
    assert classifier.health_.coreset_difference < 0.3
    # The prior is around the logits that the sample gave; all rows have moved the draws from there.
    identity = torch.eye(3, dtype=torch.float64)
    logits = classifier.feature_extractor(X)
    moved = classifier.posterior_.predict_proba_samples(logits).mean(dim=0)
    assert (moved - (logits @ identity).softmax(dim=1)).abs().mean() > 0.005
    assert (scored["prediction"] == table["label"]).mean() > 0.85
    assert (scored["reason"] == "unfamiliar").mean() < 0.08
    assert model.explain(table.head(1).assign(v5=99.0))[0].surprises[0].column == "v5"
