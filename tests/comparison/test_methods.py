import numpy as np
import pytest
from sklearn.datasets import make_blobs

from bacoun.comparison.cases import Case, Rows
from bacoun.comparison.methods import METHODS, OURS, QUICK_METHODS, Deferral, Scored, inputs_of
from bacoun.comparison.run import detection, measure, quality

QUICK = [
    *("forest", "boosting", "logistic", "mlp", "mapie", "isolation forest", "LOF"),
    *("one-class SVM", "kNN", "Mahalanobis"),
]


def rows_of(points, labels=None):
    return Rows(points, labels, np.zeros(len(points), dtype=bool))


@pytest.fixture(scope="module")
def blobs():
    """Three blobs and a category without meaning; the shift lies far away."""
    X, y = make_blobs(240, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    X = np.column_stack([X, np.arange(240) % 3])
    far = X[:50] + np.array([40, 40, 0])
    return Case(rows_of(X[:160], y[:160]), rows_of(X[160:], y[160:]), [2], 3, {"far": rows_of(far)})


@pytest.mark.parametrize("method", QUICK)
def test_every_quick_method_learns_the_blobs_and_says_what_it_promises(method, blobs):
    answer = METHODS[method].fit(blobs, 0)(blobs.test)
    assert tuple(answer) == METHODS[method].scores
    for scored in answer.values():
        assert scored.probabilities.shape == (80, 3)
        np.testing.assert_allclose(scored.probabilities.sum(axis=1), 1, atol=1e-6)
        assert np.isfinite(scored.ood).all()
        assert scored.ood.shape == scored.deferral.shape == (80,)
        assert quality(scored.probabilities, blobs.test.truth)["accuracy"] > 0.95


@pytest.mark.parametrize("method", ["LOF", "one-class SVM", "kNN", "Mahalanobis"])
def test_detectors_notice_what_is_far(method, blobs):
    found = measure(blobs, method, 0)["scores"][method]["shifts"]["far"]
    assert found["auroc"] > 0.99
    assert found["fpr95"] < 0.05


def test_a_confident_network_does_not(blobs):
    found = measure(blobs, "mlp", 0)["scores"]
    assert found["mlp, energy"]["shifts"]["far"]["auroc"] < 0.5


def test_energies_and_probabilities_of_the_mlp_are_those_of_scikit_learn(blobs):
    from sklearn.neural_network import MLPClassifier

    inputs = inputs_of(blobs)
    model = MLPClassifier(random_state=0, max_iter=500).fit(inputs(blobs.train), blobs.train.truth)
    said = METHODS["mlp"].fit(blobs, 0)(blobs.test)["mlp, energy"]
    np.testing.assert_allclose(said.probabilities, model.predict_proba(inputs(blobs.test)))
    two = Case(
        *(rows_of(part.points, np.minimum(part.truth, 1)) for part in (blobs.train, blobs.test)),
        [2],
        2,
    )
    model = MLPClassifier(random_state=0, max_iter=500).fit(inputs(two.train), two.train.truth)
    said = METHODS["mlp"].fit(two, 0)(two.test)["mlp, energy"]
    np.testing.assert_allclose(
        said.probabilities, model.predict_proba(inputs(two.test)), atol=1e-12
    )


def test_a_category_that_training_lacks_is_all_zeros(blobs):
    unknown = rows_of(np.array([[0.0, 0.0, -1.0]]))
    np.testing.assert_array_equal(inputs_of(blobs)(unknown)[0, 2:], [0, 0, 0])


@pytest.mark.filterwarnings("ignore:.*has not converged")
def test_ours_marks_impossible_values_as_unfamiliar(blobs, monkeypatch):
    from bacoun import BaCOUnClassifier
    from bacoun.comparison.methods import fit_bacoun

    marked = Rows(blobs.test.points, blobs.test.labels, np.arange(80) == 3)
    answer = fit_bacoun(BaCOUnClassifier.quick, OURS, blobs, 0)
    scored = answer(marked)[OURS]
    assert np.flatnonzero(np.isinf(scored.ood)).tolist() == [3]
    assert np.flatnonzero(np.isinf(scored.deferral)).tolist() == [3]


def test_a_row_is_deferred_by_the_mean_of_two_percentiles():
    deferral = Deferral(np.arange(10.0), np.arange(100.0))
    np.testing.assert_allclose(deferral(np.array([5.0, 0.0]), np.array([10.0, 99.5])), [0.3, 0.5])


def test_slow_methods_are_not_among_the_quick_ones_and_names_are_unique():
    assert OURS in QUICK_METHODS
    assert not set(QUICK_METHODS) & {"BNN", "GP", "MC-Dropout"}
    scores = [score for method in METHODS.values() for score in method.scores]
    assert len(scores) == len(set(scores))


def test_a_method_without_its_package_says_so():
    from bacoun.comparison.methods import Method

    assert not Method(lambda case, seed: None, ("x",), package="no_such_package").is_installed
    assert METHODS["forest"].is_installed


# --- metrics -------------------------------------------------------------------------------------


def test_known_answers_of_a_perfect_and_of_a_useless_score():
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
    test = rows_of(np.zeros((4, 1)), np.array([0, 1, 0, 1]))
    low, high = np.zeros(4), np.ones(4)
    inside = Scored(probabilities, low, low)
    found = detection(inside, test, Scored(probabilities, high, high))
    assert found == {
        "auroc": 1.0,
        "aupr": 1.0,
        "fpr95": 0.0,
        # No errors up to half; then 1/5, 2/6, 3/7 and 4/8 of those answered, on average.
        "aurc": pytest.approx((1 / 5 + 2 / 6 + 3 / 7 + 4 / 8) / 8),
        "augrc": pytest.approx(1 / 8),
    }
    useless = detection(inside, test, Scored(probabilities, low, low))
    assert useless["auroc"] == 0.5
    assert useless["aurc"] == pytest.approx(0.5)


def test_a_probability_of_zero_is_a_finite_loss():
    found = quality(np.array([[1.0, 0.0]]), np.array([1]))
    assert found["log loss"] == pytest.approx(27.6, abs=0.1)
