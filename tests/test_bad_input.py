"""Each mistake gets one sentence: what was expected, what came, and the way out if it has one."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from bacoun import BaCOUnClassifier


def sentence(info):
    message = str(info.value)
    assert "\n" not in message
    assert len(message) < 250
    return message


def spoiled(X, value):
    X = X.copy()
    X[3, 1] = value
    return X


@pytest.fixture(scope="module")
def model(fast_model):
    return fast_model


TABLES = {
    "NaN": (lambda X: spoiled(X, np.nan), "it contains NaN"),
    "infinity": (lambda X: spoiled(X, np.inf), "it contains infinity"),
    "text": (lambda X: spoiled(X.astype(object), "red"), "it contains the text 'red'"),
    "no rows": (lambda X: X[:0], "at least one row; got shape (0, 2)"),
    "one dimension": (lambda X: X[:, 0], "got a 1D array"),
    "scalar": (lambda X: 3.0, "got a scalar array"),
    "five dimensions": (lambda X: X[None, None, None], "or (N, C, H, W), none of them empty"),
    "complex": (lambda X: X * 1j, "X must hold real numbers"),
    "missing in a frame": (lambda X: pd.DataFrame(spoiled(X, None)), "it contains NaN"),
}


@pytest.mark.parametrize(("spoil", "expected"), TABLES.values(), ids=TABLES)
def test_a_bad_table_is_refused_in_fit_and_in_predict(model, fast, moons, spoil, expected):
    X, y = moons
    with pytest.raises(ValueError) as info:  # noqa: PT011
        fast().fit(spoil(X), y[:0] if expected.startswith("at least") else y)
    assert expected in sentence(info)
    for method in (model.predict, model.predict_proba, model.uncertainty, model.log_density):
        with pytest.raises(ValueError) as info:  # noqa: PT011
            method(spoil(X))
        assert expected in sentence(info)


def test_sparse_tables_are_refused(model, fast, moons):
    X, y = moons
    for call in (
        lambda: fast().fit(scipy.sparse.csr_array(X), y),
        lambda: model.predict(scipy.sparse.csr_array(X)),
    ):
        with pytest.raises(TypeError, match="dense data is required") as info:
            call()
        assert "toarray" in sentence(info)


def test_columns_of_dates_are_refused(fast, moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(b=pd.Timestamp("2020-01-01"))
    with pytest.raises(TypeError, match="X must hold numbers; it contains dates") as info:
        fast().fit(frame, y)
    sentence(info)


def test_numbers_beyond_a_finite_variance_are_refused(fast, moons):
    with pytest.raises(ValueError, match="must have a finite variance; its largest") as info:
        fast().fit(moons[0] * 1e300, moons[1])
    sentence(info)


LABELS = {
    "one class": (lambda y: 0 * y, "at least 2 classes; got 1 class, 0"),
    "one text": (lambda y: np.full(len(y), "a"), "got 1 class, 'a'"),
    "too short": (lambda y: y[:-1], "got 120 rows and 119 labels"),
    "continuous": (lambda y: y + np.linspace(0, 0.5, len(y)), "Unknown label type: continuous"),
    "two columns": (lambda y: np.column_stack([y, y]), "y should be a 1d array, got an array"),
    "none at all": (lambda y: None, "requires y to be passed"),
    "NaN": (lambda y: np.where(y == 1, np.nan, 0), "Input y contains NaN"),
    "of two kinds": (
        lambda y: np.array([1 if label else "a" for label in y], dtype=object),
        "labels of one kind, all text or all numbers; got int, str",
    ),
    "missing": (
        lambda y: np.array([None if label else "a" for label in y], dtype=object),
        "got NoneType, str",
    ),
}


@pytest.mark.parametrize(("spoil", "expected"), LABELS.values(), ids=LABELS)
def test_bad_labels_are_refused(fast, moons, spoil, expected):
    X, y = moons
    with pytest.raises(ValueError) as info:  # noqa: PT011
        fast().fit(X, spoil(y))
    assert expected in sentence(info)


@pytest.mark.parametrize("columns", [1, 3])
def test_another_number_of_columns_is_refused(model, columns):
    with pytest.raises(ValueError, match=f"X has {columns} features, but .* expecting 2") as info:
        model.predict(np.zeros((4, columns)))
    sentence(info)


def test_other_column_names_are_refused_by_name(fast, moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["length", "width"])
    model = fast().fit(frame, y)
    # scikit-learn's own words, over several lines: its checks ask for them to the letter.
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- depth\n.*missing:\n- width"):
        model.predict(frame.rename(columns={"width": "depth"}))
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(frame[["width", "length"]])
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(X)


def test_two_columns_of_one_name_are_refused(fast, moons):
    X, y = moons
    with pytest.raises(ValueError, match="unique column names; some occur twice") as info:
        fast().fit(pd.DataFrame(X, columns=["a", "a"]), y)
    sentence(info)


SETTINGS = {
    "certainly unknown": ({"ood_prior": 1}, "from 0 to below 1; got 1. Try 0.01."),
    "negative prior": ({"ood_prior": -0.1}, "ood_prior must be a share from 0 to below 1"),
    "prior by name": ({"ood_prior": "rare"}, "below 1; got 'rare'"),
    "no prior": ({"ood_prior": None}, "below 1; got None"),
    "prior not a number": ({"ood_prior": float("nan")}, "below 1; got nan"),
    "no edge": ({"n_boundary": 0}, "n_boundary must be 'balanced' or a positive number; got 0"),
    "negative edge": ({"n_boundary": -5}, "positive number; got -5"),
    "half a point": ({"n_boundary": 2.5}, "positive number; got 2.5"),
    "edge by name": ({"n_boundary": "many"}, "positive number; got 'many'"),
    "edge as bool": ({"n_boundary": True}, "positive number; got True"),
    "half outliers": ({"contamination": 0.5}, "share from 0 to below 0.5; got 0.5. Try 0.05."),
    "negative share": ({"contamination": -0.1}, "contamination must be a share"),
    "share by name": ({"contamination": "auto"}, "below 0.5; got 'auto'"),
    "no share": ({"contamination": float("nan")}, "below 0.5; got nan"),
    "boundary": (
        {"boundary": "wall"},
        "boundary must be one of ['auto', 'compact-shell', 'direction-shell', 'flow-shell'",
    ),
    "features": (
        {"features": "nice"},
        "features must be one of ['auto', 'learned', 'linear', 'tabular']",
    ),
    "posterior": (
        {"posterior": "magic"},
        "posterior must be one of ['hmc', 'laplace', 'mean-field', 'nuts']",
    ),
    "a number for a step": ({"posterior": 3}, "or an object with fit and predict_proba_samples"),
    "no features": ({"features": None}, "or an object with fit and transform; got None"),
    "prior": ({"posterior": "laplace", "posterior__prior_scale": -1.0}, "or 'evidence'; got -1"),
}


@pytest.mark.parametrize(("settings", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_bad_settings_are_refused_when_fitting(fast, moons, settings, expected):
    with pytest.raises(ValueError) as info:  # noqa: PT011
        fast().set_params(**settings).fit(*moons)
    assert expected in sentence(info)


def test_a_bad_setting_leaves_the_model_unfitted(fast, moons):
    model = fast(ood_prior=2)
    with pytest.raises(ValueError, match="ood_prior must be"):
        model.fit(*moons)
    with pytest.raises(NotFittedError):
        model.predict(moons[0])


def test_a_setting_of_a_step_that_is_none_is_refused(fast):
    with pytest.raises(ValueError, match="boundary__epochs needs a boundary; it is None") as info:
        fast(boundary=None).set_params(boundary__epochs=3)
    sentence(info)


@pytest.mark.parametrize(
    "use",
    [
        lambda model: model.predict([[0, 0]]),
        lambda model: model.predict_proba_samples([[0, 0]]),
        lambda model: model.uncertainty([[0, 0]]),
        lambda model: model.ood_probability([[0, 0]]),
        lambda model: model.ood_score([[0, 0]]),
        lambda model: model.log_density([[0, 0]]),
        lambda model: model.health_,
        lambda model: model.save("never-written"),
    ],
    ids=["predict", "samples", "uncertainty", "ood", "score", "density", "health", "save"],
)
def test_use_before_fit_says_so(use):
    with pytest.raises(NotFittedError, match="not fitted yet") as info:
        use(BaCOUnClassifier())
    sentence(info)


def test_an_unknown_experiment_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"\['gmm', 'mnist', 'moons', 'wine'\]; got 'iris'"
    ) as info:
        BaCOUnClassifier.paper("iris")
    sentence(info)
