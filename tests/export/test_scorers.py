import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_validate

from bacoun.export.scorers import aurc_scorer, ood_auroc_scorer
from bacoun.uncertainty import aurc, auroc

OUTSIDE = np.random.default_rng(0).uniform(-9, 9, (80, 2))


@pytest.mark.parametrize("part", ["epistemic", "total", "aleatoric"])
def test_the_ood_scorer_is_the_auroc_of_a_part(fast_model, moons, part):
    inside, outside = (getattr(fast_model.uncertainty(X), part) for X in (moons[0], OUTSIDE))
    assert ood_auroc_scorer(OUTSIDE, part=part)(fast_model, *moons) == auroc(inside, outside)


def test_the_aurc_scorer_is_minus_the_aurc(fast, moons):
    X, y = moons
    names = np.array(["ham", "spam"])[y]
    model = fast().fit(X, names)
    right = model.predict(X) == names
    assert aurc_scorer(model, X, list(names)) == -aurc(model.uncertainty(X).total, right)


def test_a_grid_search_finds_the_better_setting(fast, moons):
    grid = {"ood_prior": [0, 0.01, 0.5]}
    scoring = {"ood": ood_auroc_scorer(OUTSIDE), "aurc": aurc_scorer}
    search = GridSearchCV(fast(), grid, scoring=scoring, refit="ood", cv=2).fit(*moons)
    scores = search.cv_results_["mean_test_ood"]
    assert search.best_score_ == scores.max()
    assert np.isfinite(scores).all()
    assert (search.cv_results_["mean_test_aurc"] <= 0).all()


def test_scorers_can_be_pickled_for_cross_validation(fast, moons):
    scorer = pickle.loads(pickle.dumps(ood_auroc_scorer(OUTSIDE)))
    found = cross_validate(fast(), *moons, cv=2, scoring=scorer)["test_score"]
    np.testing.assert_array_equal(
        found, cross_validate(fast(), *moons, cv=2, scoring=ood_auroc_scorer(OUTSIDE))["test_score"]
    )


def test_data_frames_keep_their_column_names(fast, moons, recwarn):
    frame = pd.DataFrame(moons[0], columns=["length", "width"])
    outside = pd.DataFrame(OUTSIDE, columns=["length", "width"])
    model = fast().fit(frame, moons[1])
    assert 0 <= ood_auroc_scorer(outside)(model, frame) <= 1
    assert len(recwarn) == 0


def test_scorers_have_a_readable_repr():
    assert repr(ood_auroc_scorer(OUTSIDE)) == "ood_auroc_scorer(<80 points>, part='epistemic')"
    assert "aurc_scorer" in repr(aurc_scorer)
    with pytest.raises(ValueError, match=r"part must be one of .*; got 'ood'"):
        ood_auroc_scorer(OUTSIDE, part="ood")
