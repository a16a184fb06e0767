"""A fit is cached by what decides it, and by nothing else."""

import threading
import time

import pytest
from reproduction.fits import cached, code_digest, fitted, training_settings
from reproduction.methods import make_method
from reproduction.schema import read_experiment
from reproduction.studies.regions import load

from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace
from reproduction import fits


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def experiment(small_methods):
    full = read_experiment("gmm", quick=True)
    dataset = full.dataset | {"points_per_class": 30, "n_test": 60}
    methods = {name: small_methods[name] for name in ("BaCOUn", "NLM")}
    methods["BaCOUn"]["boundary"] = {"shell": {"epochs": 2, "blocks": 1, "hidden": 8}}
    return full.model_copy(update={"dataset": dataset, "methods": methods})


def refuse(*arguments, **named):
    raise KeyboardInterrupt


def test_a_fit_is_computed_once(experiment, monkeypatch):
    data = load(experiment.dataset, 0)
    model, seconds = fitted(experiment, "NLM", 0, data)
    monkeypatch.setattr("reproduction.fits.make_method", refuse)
    again, seconds_again = fitted(experiment, "NLM", 0, data)
    assert seconds_again == seconds
    assert (again.predict_proba(data.points) == model.predict_proba(data.points)).all()
    asked = experiment.model_copy(
        update={"dataset": experiment.dataset | {"others": ["usps"], "n_asked": 3}}
    )
    fitted(asked, "NLM", 0, data)  # what is asked about decides no fit


def test_a_model_without_doubt_has_the_fit_of_the_one_with_it(experiment, monkeypatch):
    methods = experiment.methods | {"no doubt": experiment.methods["BaCOUn"] | {"ood_prior": 0}}
    experiment = experiment.model_copy(update={"methods": methods})
    data = load(experiment.dataset, 0)
    alone = make_method(methods["no doubt"], seed=0).fit(data.points, data.labels)
    fitted(experiment, "BaCOUn", 0, data)
    monkeypatch.setattr("reproduction.fits.make_method", refuse)
    shared, _ = fitted(experiment, "no doubt", 0, data)
    far = 10 * data.points
    assert (shared.predict_proba(far) == alone.predict_proba(far)).all()
    assert (shared.uncertainty(far).epistemic == alone.uncertainty(far).epistemic).all()


@pytest.mark.parametrize("part", ["dataset", "method", "seed", "code"])
def test_a_fit_is_recomputed_after_a_change(experiment, monkeypatch, part):
    data = load(experiment.dataset, 0)
    fitted(experiment, "NLM", 0, data)
    monkeypatch.setattr("reproduction.fits.make_method", refuse)
    if part == "dataset":
        changed = {"dataset": experiment.dataset | {"points_per_class": 31}}
    else:
        changed = {
            "methods": {"NLM": experiment.methods["NLM"] | {"standardize": part != "method"}}
        }
    other = experiment if part in ("seed", "code") else experiment.model_copy(update=changed)
    if part == "code":
        monkeypatch.setattr("reproduction.fits.code_digest", lambda: "another")
    with pytest.raises(KeyboardInterrupt):
        fitted(other, "NLM", int(part == "seed"), data)


def test_the_digest_is_of_the_code_that_decides_a_fit(monkeypatch, tmp_path):
    for name in ("bacoun/features/learned.py", "bacoun/cli/fit.py", "bacoun/display.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "reproduction" / "datasets").mkdir(parents=True)
    (tmp_path / "reproduction" / "methods.py").write_text("")
    monkeypatch.setattr("reproduction.fits.files", lambda package: tmp_path / package)
    before = code_digest()
    (tmp_path / "bacoun/cli/fit.py").write_text("1")
    (tmp_path / "bacoun/display.py").write_text("1")
    assert code_digest() == before
    (tmp_path / "bacoun/features/learned.py").write_text("1")
    assert code_digest() != before


def test_an_interrupted_fit_resumes(experiment, monkeypatch, own_cache):
    data = load(experiment.dataset, 0)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Laplace, "fit", refuse)
        with pytest.raises(KeyboardInterrupt):
            fitted(experiment, "BaCOUn", 0, data)
    (checkpoint,) = (own_cache / "checkpoints").iterdir()
    assert any(path.is_file() for path in checkpoint.rglob("*"))
    monkeypatch.setattr(LearnedFeatures, "fit", refuse)  # step 2 was finished
    model, _ = fitted(experiment, "BaCOUn", 0, data)
    assert model.predict_proba(data.points).shape == (90, 3)
    assert not checkpoint.exists()


def test_training_settings_leave_out_what_is_only_asked(experiment):
    dataset = {"kind": "mnist", "n_train": 5, "n_asked": 3, "others": []}
    other = experiment.model_copy(update={"dataset": dataset})
    assert training_settings(other) == {"kind": "mnist", "n_train": 5}


def noted(number, note):
    note.append(number)
    return 2 * number


def test_cached_results_depend_on_the_arguments_that_are_not_ignored():
    notes: list[int] = []
    double = cached(noted, ignore=["note"])
    assert [double(1, notes), double(1, notes), double(2, notes)] == [2, 2, 4]
    assert notes == [1, 2]


def test_of_two_who_want_the_same_fit_one_waits(tmp_path):
    """Methods that run in parallel may share a fit, whose checkpoint belongs to one of them."""
    order = []

    def use(name, seconds):
        with fits._alone(tmp_path / "fit.lock"):
            order.append(f"{name} begins")
            time.sleep(seconds)
            order.append(f"{name} ends")

    threads = [threading.Thread(target=use, args=(name, 0.2)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, second = order[0].split()[0], order[2].split()[0]
    assert order == [f"{first} begins", f"{first} ends", f"{second} begins", f"{second} ends"]
