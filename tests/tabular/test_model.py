"""From a table to decisions: training, held-out calibration, saving and loading."""

import math
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from bacoun.deferral import DeferralRule
from bacoun.tabular import TableModel, read_table, stream_table

N = 240
RNG = np.random.default_rng(0)


def make_table(n_rows=N):
    kind = RNG.integers(0, 2, n_rows)
    return pd.DataFrame(
        {
            "id": [f"P{i:05}" for i in range(n_rows)],
            "x": RNG.normal(3 * kind, 1),
            "y": RNG.normal(-2 * kind, 1),
            "ward": RNG.choice(["A", "B", "C"], n_rows),
            "label": np.where(kind == 1, "ill", "well"),
        }
    )


TABLE = make_table()


@pytest.fixture(scope="module")
def model(fast):
    return TableModel.fit(TABLE, "label", classifier=fast())


def test_a_scored_table_has_its_columns_and_its_index(model):
    scored = model.score(TABLE[5:9], because=True)
    assert list(scored) == model.added_columns
    assert list(model.score(TABLE[5:9])) == model.added_columns[:-1]
    assert scored.index.tolist() == [5, 6, 7, 8]
    assert set(scored["prediction"]) <= {"ill", "well"}
    np.testing.assert_allclose(scored["p_ill"] + scored["p_well"], 1)
    np.testing.assert_allclose(scored["total"], scored["aleatoric"] + scored["epistemic"])
    deferred = scored["decision"] == "defer"
    assert ((scored["reason"] != "") == deferred).all()
    assert ((scored["because"] != "") == deferred).all()


def test_scores_are_those_of_the_classifier_and_the_rule(model):
    scored = model.score(TABLE)
    points = model.encoder.transform(TABLE)
    np.testing.assert_array_equal(scored["prediction"], model.classifier.predict(points))
    parts = model.classifier.uncertainty(points)
    np.testing.assert_allclose(scored["epistemic"], parts.epistemic, atol=1e-4)
    np.testing.assert_allclose(scored["ood_score"], model.classifier.ood_score(points), 1e-2, 1e-2)
    kappa = model.classifier.ood_probability(points)
    np.testing.assert_allclose(scored["ood_probability"], kappa, atol=1e-4)
    np.testing.assert_allclose(scored["log_density"], model.classifier.log_density(points), 1e-4)
    decided = model.rule.decide(scored["ood_score"].round(2), scored["total"].round(5))
    np.testing.assert_array_equal(scored["decision"], decided.decision)


def test_rows_are_held_out_for_the_rule(model):
    assert model.facts["training_rows"] == 192
    assert model.rule.n_calibration == model.facts["calibration_rows"] == 48
    assert model.facts["classes"] == TABLE["label"].value_counts().to_dict()
    assert model.facts["dropped_columns"] == {"id": "id"}
    assert 0.8 < model.facts["accuracy"] <= 1
    assert 0.8 < model.facts["auc"] <= 1


def test_the_saved_calibration_scores_reproduce_the_rule(model):
    kept = model.calibration
    again = DeferralRule.calibrate(
        kept["ood_score"].round(2),
        kept["total"].round(5),
        kept["correct"],
        max_error=model.rule.acceptance.max_error,
        max_error_probability=0.2,
        n_bounds=5,
    )
    assert again == model.rule
    assert kept["correct"].mean() == model.facts["accuracy"]


def test_a_model_records_its_time_and_versions(model):
    moment = datetime.strptime(model.made["fitted"], "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC)
    assert timedelta() <= datetime.now(UTC) - moment < timedelta(hours=2)
    assert f"torch {version('torch')}, " in model.made["with"]
    assert f"bacoun {version('bacoun')}, " in model.made["with"]


def test_far_away_rows_are_unfamiliar(model):
    far = model.score(TABLE[:1].assign(x=400.0, y=300.0))
    assert far["reason"].tolist() == ["unfamiliar"]
    assert far["ood_score"][0] > 5 * model.rule.ood_threshold
    assert far["ood_probability"][0] > 0.9


def test_a_new_category_is_unfamiliar_whatever_its_score(model):
    usual = model.score(TABLE)
    row = usual.index[usual["decision"] == "accept"][0]
    new = model.score(TABLE.loc[[row]].assign(ward="Z"))
    assert np.isfinite(new["ood_score"]).all()
    assert new["reason"].tolist() == ["unfamiliar"]


def test_without_doubt_the_rule_goes_by_epistemic_uncertainty(fast):
    model = TableModel.fit(TABLE, "label", classifier=fast(ood_prior=0.0))
    scored = model.score(TABLE)
    np.testing.assert_array_equal(scored["ood_score"], scored["epistemic"])
    assert scored["ood_probability"].isna().all()
    assert scored["log_density"].notna().all()


def test_a_saved_model_is_loaded_unchanged(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = TableModel.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.score(TABLE), model.score(TABLE), check_exact=True)
    assert loaded.rule == model.rule
    assert loaded.facts == model.facts
    assert loaded.made == model.made
    assert loaded.calibration.keys() == model.calibration.keys()
    for name, scores in model.calibration.items():
        np.testing.assert_array_equal(loaded.calibration[name], scores)
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "model")
    model.save(tmp_path / "model", overwrite=True)


def test_a_classifier_alone_is_no_model_of_a_table(model, tmp_path):
    model.classifier.save(tmp_path / "alone")
    with pytest.raises(ValueError, match="a classifier without the table's columns"):
        TableModel.load(tmp_path / "alone")


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ({"ill": 7, "well": 3}, int),
        ({"ill": True, "well": False}, bool),
        ({"ill": 1.0, "well": 2.0}, float),
        ({"ill": "é", "well": "1"}, str),
    ],
)
def test_labels_keep_their_type(fast, tmp_path, labels, kind):
    table = TABLE.assign(label=TABLE["label"].map(labels))
    TableModel.fit(table, "label", classifier=fast()).save(tmp_path / "model")
    scored = TableModel.load(tmp_path / "model").score(table)
    values = scored["prediction"].tolist()
    assert {type(value) for value in values} == {kind}
    assert set(values) == set(labels.values())
    assert {f"p_{label}" for label in labels.values()} < set(scored)


def test_one_seed_gives_one_model_whatever_the_order_of_columns(fast):
    one = TableModel.fit(TABLE, "label", classifier=fast())
    two = TableModel.fit(TABLE, "label", classifier=fast())
    pd.testing.assert_frame_equal(one.score(TABLE), two.score(TABLE[TABLE.columns[::-1]]))
    assert one.facts == two.facts
    other = TableModel.fit(TABLE, "label", classifier=fast(), random_state=1)
    assert other.score(TABLE)["epistemic"].tolist() != one.score(TABLE)["epistemic"].tolist()


def test_missing_values_are_imputed_or_refused(fast):
    table = TABLE.copy()
    table.loc[::9, "x"] = np.nan
    with pytest.raises(ValueError, match="'x' has some"):
        TableModel.fit(table, "label", classifier=fast(), impute=False)
    filled = TableModel.fit(table, "label", classifier=fast())
    assert "x missing" in filled.encoder.feature_names_
    assert np.isfinite(filled.score(table)["epistemic"]).all()


def test_a_bound_without_enough_evidence(fast):
    auto = TableModel.fit(TABLE, "label", classifier=fast())
    assert auto.rule.acceptance.max_error == 0.1  # 48 rows are too few for a tighter one
    assert "At most 10 % of accepted points are wrong" in auto.facts["error_bound"]
    assert (auto.score(TABLE)["decision"] == "accept").mean() > 0.8
    strict = TableModel.fit(TABLE, "label", classifier=fast(), max_error=0.01)
    assert (strict.score(TABLE)["decision"] == "defer").all()
    loose = TableModel.fit(TABLE, "label", classifier=fast(), max_error=0.3)
    assert loose.rule.acceptance.threshold is not None
    none = TableModel.fit(TABLE, "label", classifier=fast(), max_error=None)
    assert none.facts["error_bound"] == "No error bound was requested."


def test_rows_of_an_unseen_category_do_not_set_the_threshold(fast):
    table = TABLE.assign(ward=[f"W{i}" if i % 2 else "A" for i in range(N)])
    model = TableModel.fit(table, "label", classifier=fast())
    new = np.isinf(model.calibration["ood_score"])
    assert 0.3 < new.mean() < 0.7
    assert model.rule.ood_threshold < 100
    told = f"{new.sum()} more have an infinite ood_score and are always flagged, so that in all it"
    assert f"{told} may be more than 5 %." in model.rule.summary()
    assert (model.score(TABLE.assign(ward="Z"))["reason"] == "unfamiliar").all()


FITS = {
    "no target": (TABLE.drop(columns="label"), {}, "there is no 'label'. It has 'id', 'x', 'y'"),
    "a label missing": (TABLE.assign(label=[None, *TABLE["label"][1:]]), {}, "the first is row 1"),
    "a label says None": (TABLE.replace({"label": {"ill": "None"}}), {}, "such as 'None'"),
    "one class": (TABLE[TABLE["label"] == "ill"], {}, "has 'ill' in every row"),
    "one row": (TABLE[:1], {}, "at least 2 classes"),
    "rare class": (TABLE.assign(label=["odd"] * 3 + list(TABLE["label"][3:])), {}, "fewer: 'odd'"),
    "regression": (TABLE.assign(label=TABLE["x"]), {}, "240 different numbers"),
    "counts": (TABLE.assign(label=range(N)), {}, "240 of 240 have fewer"),
    "mixed": (TABLE.assign(label=["ill", 1] * (N // 2)), {}, "of one type"),
    "dates": (TABLE.assign(label=pd.Timestamp("2020-01-01")), {}, "of one type"),
    "infinite": (TABLE.assign(label=[np.inf, 1.0] * (N // 2)), {}, "with decimals or infinite"),
    # 30.15: cells that hold several values
    "a list": (TABLE.assign(z=[[1]] + [1.0] * (N - 1)), {}, "'z' has a list in row 1"),
    "a tuple": (TABLE.assign(z=[1.0, (1, 2)] * (N // 2)), {}, "'z' has a tuple in row 2"),
    "an array": (TABLE.assign(z=[np.zeros(2)] * N), {}, "'z' has a ndarray in row 1"),
    "a dict": (TABLE.assign(label=[{"a": 1}] * N), {}, "'label' has a dict in row 1"),
    "false alarm": (TABLE, {"false_alarm": 0}, "false_alarm must lie between 0 and 1"),
    "max error": (TABLE, {"max_error": 1.5}, "max_error must lie between 0 and 1"),
    "confidence": (TABLE, {"confidence": 95}, "confidence must lie between 0 and 1"),
    "share": (TABLE, {"calibration_share": math.nan}, "calibration_share must lie"),
    "large share": (TABLE, {"calibration_share": 0.999}, "rows of each class on both sides"),
    "small share": (TABLE, {"calibration_share": 0.001}, "rows of each class on both sides"),
    "a gap": (TABLE.assign(x=[*TABLE["x"][:-1], None]), {"impute": False}, "'x' has some"),
    "no such time": (TABLE, {"time": "when"}, "time must be a column of the table; 'when' is not"),
    "time in words": (TABLE, {"time": "label"}, "time must be a column"),
    "time with gaps": (TABLE.assign(t=[None, *range(1, N)]), {"time": "t"}, "no missing values"),
}


@pytest.mark.parametrize(("table", "options", "expected"), FITS.values(), ids=FITS)
def test_a_bad_table_is_refused_before_any_work(fast, table, options, expected):
    classifier = fast()
    with pytest.raises(ValueError) as info:  # noqa: PT011
        TableModel.fit(table, "label", classifier=classifier, **options)
    assert expected in str(info.value)
    assert "\n" not in str(info.value)
    assert not hasattr(classifier, "classes_")


def test_chunks_of_a_file_score_as_the_whole(fast, tmp_path):
    cancer = load_breast_cancer(as_frame=True).frame
    model = TableModel.fit(cancer, "target", classifier=fast())
    cancer = cancer[:100]
    expected = model.score(cancer)
    cancer.to_csv(tmp_path / "a.csv", index=False)
    cancer.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        pd.testing.assert_frame_equal(model.score(read_table(tmp_path / name)), expected)
        chunks = pd.concat(model.score(chunk) for chunk in stream_table(tmp_path / name, rows=7))
        pd.testing.assert_frame_equal(chunks, expected, rtol=1e-3, atol=1e-4)
