"""The benchmark on embeddings: all methods answer, and the tables follow from the record."""

import dataclasses
import json
from functools import partial

import numpy as np
import pytest
from benchmarks.embedded import CASES, Draw
from benchmarks.on_vectors import METHODS, OURS, QUICK, fit_bacoun, fit_knn, fit_logistic
from reproduction.datasets.sources import locate

from bacoun.comparison.record import as_text
from benchmarks import embedded, embeddings


def clouds(n_each: int, centers: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points around centers (K, D), and the numbers of their centers as text."""
    labels = np.repeat(np.arange(len(centers)), n_each)
    noise = np.random.default_rng(seed).normal(scale=0.7, size=(len(labels), centers.shape[1]))
    return centers[labels] + noise, np.array(["a", "b", "c", "d"])[labels]


def draw(n_classes: int = 3, **more: np.ndarray) -> Draw:
    """Vectors of some classes; the unknown are of one more."""
    centers = 2 * np.random.default_rng(0).normal(size=(4, 12))
    train, known = (clouds(n, centers[:n_classes], seed) for n, seed in ((15, 1), (10, 2)))
    return Draw(*train, *known, clouds(20, centers[3:], 3)[0], **more)


@pytest.fixture(scope="module")
def methods(fast):
    return QUICK | {OURS: partial(fit_bacoun, model=fast())}


@pytest.fixture(scope="module")
def record(methods):
    """Two cases with what is known about ambiguity, and one without."""
    unsure = np.random.default_rng(4).random(30)
    drawn = {
        "clinc 15/0": draw(),
        "cifar/0": draw(disagreement=unsure),
        "cifar/1": draw(disagreement=unsure[::-1]),
        "solar/0": draw(n_classes=2, unclear=np.zeros((9, 12))),
    }
    runs = {name: embeddings.measure_on(each, 0, methods) for name, each in drawn.items()}
    return json.loads(as_text({"runs": runs}))


def test_every_method_is_measured_on_every_case(record):
    for run in record["runs"].values():
        assert [*run["methods"]] == [*METHODS]
        for row in embeddings.ROWS:
            method = run["methods"][row.method]
            assert set(row.scores) <= method["auroc"].keys() == method["fpr95"].keys()
            assert all(
                0 <= value <= 1 for part in ("auroc", "fpr95") for value in method[part].values()
            )
        for name in {*METHODS} - {"kNN", "Mahalanobis"}:
            assert 0 <= run["methods"][name]["accuracy"] <= 1
            assert run["methods"][name]["log loss"] > 0


def test_clouds_that_are_far_apart_are_told_apart(record):
    methods = record["runs"]["clinc 15/0"]["methods"]
    assert methods["kNN"]["auroc"]["nearest"] > 0.9
    assert max(methods["Mahalanobis"]["auroc"].values()) > 0.9
    assert methods["logistic regression"]["accuracy"] > 0.9


def test_two_classes_have_the_same_order_by_energy_and_max_softmax():
    data = draw(n_classes=2)
    scores = fit_logistic(data.train, data.labels, 0)(data.unknown).scores
    np.testing.assert_array_equal(*(np.argsort(score, kind="stable") for score in scores.values()))


def test_neighbors_do_not_depend_on_length():
    data = draw()
    once, twice = (fit_knn(x * data.train, data.labels, 0)(data.known).scores for x in (1, 2))
    for name, score in once.items():
        np.testing.assert_allclose(twice[name], score)


def test_the_shared_mahalanobis_distance_is_that_of_scikit_learn():
    from sklearn.covariance import LedoitWolf

    data = draw()
    means = {label: data.train[data.labels == label].mean(axis=0) for label in set(data.labels)}
    within = np.stack([x - means[y] for x, y in zip(data.train, data.labels, strict=True)])
    shared = LedoitWolf(assume_centered=True).fit(within)
    expected = np.min([shared.mahalanobis(data.known - mean) for mean in means.values()], axis=0)
    found = METHODS["Mahalanobis"](data.train, data.labels, 0)(data.known).scores["as they are"]
    np.testing.assert_allclose(found**2, expected)


def test_accepted_is_the_share_of_unknown_below_the_limit_of_known():
    known = np.arange(100.0)  # 95 of them are accepted up to 94
    assert embeddings.accepted(known, np.array([94.0, 94.5, 200.0, -1.0])) == 0.5


def test_ambiguity_is_measured_against_people_or_unclear_rows(record):
    runs = record["runs"]
    assert "ambiguity" not in runs["clinc 15/0"]["methods"][OURS]
    first, second = (runs[f"cifar/{seed}"]["methods"]["forest"]["ambiguity"] for seed in (0, 1))
    assert first != second
    assert -1 <= first["entropy"] <= 1
    assert 0 <= runs["solar/0"]["methods"][OURS]["ambiguity"]["aleatoric"] <= 1
    assert {"aleatoric", "ood"} <= runs["cifar/0"]["methods"][OURS]["ambiguity"].keys()


def test_the_page_has_a_table_of_each_measured_case_with_ours_first(record):
    text = embeddings.markdown(record)
    for case in ("clinc 15", "cifar", "solar"):
        table = text.split(f"{case}: {CASES[case].about}")[1]
        first = next(line for line in table.splitlines() if line.startswith(f"| {OURS}"))
        assert first.startswith(f"| {OURS}, `ood_score` |")
        assert ("±" in first) == (case == "cifar")
    assert "bbc:" not in text


def test_a_row_shows_the_variant_with_the_higher_mean(record):
    def with_auroc(nearest, fifth):
        run = json.loads(json.dumps(record["runs"]["clinc 15/0"]))
        run["methods"]["kNN"]["auroc"] = {"nearest": nearest, "fifth": fifth}
        return run

    row = next(row for row in embeddings.ROWS if row.method == "kNN")
    assert embeddings.best_score([with_auroc(0.9, 0.6), with_auroc(0.5, 0.6)], row) == "nearest"
    _, rows = embeddings.case_rows([with_auroc(0.9, 0.6), with_auroc(0.5, 0.7)])
    assert next(cells for cells in rows if cells[0].startswith("kNN"))[:2] == [
        "kNN, nearest",
        "0.700 ± 0.200",
    ]


@pytest.mark.parametrize(("area", "kept"), [(0.95, True), (0.98, True), (0.94, False)])
def test_a_broken_promise_is_not_hidden(record, area, kept):
    run = json.loads(json.dumps(record["runs"]["clinc 15/0"]))
    for name, method in run["methods"].items():
        method["auroc"] = dict.fromkeys(method["auroc"], area if name == OURS else 0.953)
    (promise,) = (
        each
        for each in embeddings.promises({"runs": {"clinc 15/0": run}})
        if each.about.startswith("AUROC")
    )
    assert promise.limit == pytest.approx(0.95)
    assert promise.is_kept == kept
    assert f"| {'yes' if kept else 'no'} |" in embeddings.markdown({"runs": {"clinc 15/0": run}})


def test_every_promise_is_about_a_number_that_is_measured(record):
    found = list(embeddings.promises(record))
    assert {each.case for each in found} == {"clinc 15", "cifar", "solar"}
    assert np.isfinite([(each.ours, each.limit) for each in found]).all()


# --- the data -------------------------------------------------------------------------------------


@pytest.fixture
def numbered(monkeypatch):
    """Encoders that give hashes, so that a draw takes no time."""

    def encode(items):
        return np.array([[hash(item)] for item in items], dtype=np.float64)

    monkeypatch.setattr(embedded, "of_texts", encode)
    monkeypatch.setattr(embedded, "of_photos", encode)


NEEDS = {"bbc": ("bbc",), "cifar": ("cifar10", "cifar10h"), "solar": ("elpv",)}


@pytest.mark.parametrize("case", CASES)
def test_a_draw_repeats_and_its_rows_are_apart(case, numbered):
    for name in NEEDS.get(case, ("clinc",)):
        if locate(name) is None:
            pytest.skip(f"{name} is not on this machine; set BACOUN_DATA")
    first, again, other = (CASES[case].draw(seed) for seed in (0, 0, 1))
    for name, values in dataclasses.asdict(first).items():
        np.testing.assert_array_equal(values, getattr(again, name))
    assert not np.array_equal(first.train, other.train)
    assert set(first.labels) == set(first.of_known)
    groups = [{*each.ravel()} for each in (first.train, first.known, first.unknown)]
    assert not groups[2] & (groups[0] | groups[1])
    n_repeated = len(groups[0] & groups[1])  # a few news were published twice
    assert n_repeated <= (0.05 * len(first.known) if case == "bbc" else 0)


def test_known_sizes_of_the_draws(numbered):
    for case, n_train, n_asked in (("clinc 15", 300, 1450), ("cifar", 800, 1700)):
        for name in NEEDS.get(case, ("clinc",)):
            if locate(name) is None:
                pytest.skip(f"{name} is not on this machine; set BACOUN_DATA")
        drawn = CASES[case].draw(0)
        assert len(drawn.train) == n_train
        assert len(drawn.known) + len(drawn.unknown) == n_asked
