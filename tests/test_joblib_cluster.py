"""`joblib.parallel_config("dask")` moves fits to the workers of a cluster, with the same result."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from bacoun.baselines import DeepEnsemble
from bacoun.features import LearnedFeatures

distributed = pytest.importorskip("distributed")


def fitted_on(cluster, model, X, y):
    """A fit of the model, and the workers that did some of it."""
    with (
        distributed.Client(cluster) as client,
        distributed.get_task_stream(client) as stream,
        joblib.parallel_config("dask"),
    ):
        model = clone(model).fit(X, y)
    return model, {task["worker"] for task in stream.data}


@pytest.mark.parametrize("kind", ["one flow for each class", "ensemble"])
def test_the_workers_fit_what_one_process_would(cluster, fast, moons, kind):
    model = fast(verbose=True)  # a progress bar cannot be sent to a worker
    if kind == "ensemble":
        network = LearnedFeatures(hidden=(8,), epochs=3)
        model = DeepEnsemble(n_members=3, network=network, random_state=0, verbose=True)
    there, workers = fitted_on(cluster, model, *moons)
    here = clone(model).fit(*moons)
    np.testing.assert_array_equal(there.predict_proba(moons[0]), here.predict_proba(moons[0]))
    assert len(workers) == 2
