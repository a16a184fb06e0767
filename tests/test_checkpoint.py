"""A fit that was stopped, however often and wherever, ends as if it had not been."""

import os
import pickle
import subprocess
import sys
import warnings
from contextlib import contextmanager
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from torch import nn

from bacoun import BaCOUnClassifier
from bacoun.boundary import CompactShell, FlowOutlierRemover, FlowShell
from bacoun.checkpoint import Checkpoint, fingerprint
from bacoun.features import LearnedFeatures
from bacoun.posterior import HMC, Laplace, MeanField
from bacoun.training import train

GRID = np.random.default_rng(0).uniform(-4, 4, (40, 2))
FLOW = {"epochs": 3, "blocks": 2, "hidden": 8, "batch_size": 32}


def tiny(**settings):
    """Steps with all that carries state: early stopping, dropout, batch norm, warm-up."""
    small = {
        "boundary": FlowShell(patience=2, batch_norm=True, **FLOW),
        "features": LearnedFeatures(
            hidden=(8, 16), epochs=4, learning_rate=1e-2, patience=1, dropout=0.2
        ),
        "posterior": HMC(n_draws=20, n_chains=4, n_warmup=2, n_iterations=3),
        "n_boundary": 40,
        "random_state": 0,
    }
    return BaCOUnClassifier(**(small | settings))


def answers(model):
    return np.concatenate([model.predict_proba_samples(GRID).ravel(), model.log_density(GRID)])


@pytest.fixture(autouse=True)
def _chains_need_not_settle():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* has not settled")
        yield


class Clock:
    """Advances by a second each time it is read."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return self.now


class CtrlC:
    """Interrupts each epoch of each step once: when it is over, before its state is saved."""

    def __init__(self):
        self.heard = []

    @contextmanager
    def bars(self, show):
        yield lambda name: partial(self.on_epoch, name)

    def on_epoch(self, name, done, planned):
        if (name, done) not in self.heard:
            self.heard.append((name, done))
            raise KeyboardInterrupt


def fit_until_done(model, data, checkpoint):
    """Fit in as many attempts as it takes; how many were interrupted."""
    for n_interrupted in range(200):
        try:
            model.fit(*data, checkpoint=checkpoint())
        except KeyboardInterrupt:
            continue
        return n_interrupted
    raise AssertionError("it never ends")


@pytest.mark.parametrize("every_seconds", [0, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"boundary": CompactShell(n_components=1, **FLOW), "posterior": Laplace(n_draws=20)},
        {"posterior": MeanField(n_draws=20, n_iterations=12, batch_size=64)},
        {"contamination": 0.1},
    ],
    ids=["hmc", "compact", "mean-field", "contamination"],
)
def test_a_fit_interrupted_in_every_epoch_ends_as_if_it_had_not_been(
    moons, tmp_path, monkeypatch, settings, every_seconds
):
    remover = partial(FlowOutlierRemover, epochs=3, blocks=1, hidden=8)
    monkeypatch.setattr("bacoun.classifier.FlowOutlierRemover", remover)
    expected = answers(tiny(**settings).fit(*moons))
    ctrl_c = CtrlC()
    monkeypatch.setattr("bacoun.classifier.progress_bars", ctrl_c.bars)
    model = tiny(**settings)
    n_interrupted = fit_until_done(
        model, moons, lambda: Checkpoint(tmp_path, every_seconds, clock=Clock())
    )
    assert n_interrupted == len(ctrl_c.heard) >= 3 + 3
    np.testing.assert_array_equal(answers(model), expected)


def test_without_a_seed_the_attempts_are_still_one_fit(moons, tmp_path):
    first = tiny(random_state=None).fit(*moons, checkpoint=tmp_path)
    again = tiny(random_state=None).fit(*moons, checkpoint=tmp_path)
    np.testing.assert_array_equal(answers(again), answers(first))
    assert not np.array_equal(answers(tiny(random_state=None).fit(*moons)), answers(first))


def elsewhere(jobs):
    """Run joblib's jobs the way another process would, without the price of starting one."""
    carried = [pickle.loads(pickle.dumps(job)) for job in jobs]
    return [function(*arguments) for function, arguments, _ in carried]


def test_flows_fitted_in_other_processes_are_resumed_in_this_one(moons, tmp_path, monkeypatch):
    expected = answers(tiny().fit(*moons))

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bacoun.boundary.flow_shell.Parallel", lambda n_jobs: elsewhere)
        patch.setattr(LearnedFeatures, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            tiny(n_jobs=2).fit(*moons, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("boundary.flow-*.training.checkpoint"))) == 2
    resumed = tiny().fit(*moons, checkpoint=tmp_path)
    np.testing.assert_array_equal(answers(resumed), expected)


def test_a_finished_fit_is_not_done_again(moons, tmp_path, monkeypatch):
    model = tiny().fit(*moons, checkpoint=tmp_path)
    monkeypatch.setattr("bacoun.training._one_epoch", lambda *args: pytest.fail("trained again"))
    monkeypatch.setattr("bacoun.posterior.hmc.integrate", lambda *args: pytest.fail("drawn again"))
    again = tiny().fit(*moons, checkpoint=tmp_path)
    np.testing.assert_array_equal(answers(again), answers(model))
    torch.testing.assert_close(again.posterior_.chains_, model.posterior_.chains_, atol=0, rtol=0)
    assert again.features_.history_ == model.features_.history_
    assert torch.equal(again.features_.held_out_rows_, model.features_.held_out_rows_)
    assert again.doubt_ == model.doubt_
    assert again.boundary_.flows_[1].history_ == model.boundary_.flows_[1].history_


def test_a_checkpoint_changes_no_bit_of_the_fit_and_no_stream(moons, tmp_path):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    plain = tiny().fit(*moons)
    kept = tiny().fit(*moons, checkpoint=Checkpoint(tmp_path, every_seconds=0))
    resumed = tiny().fit(*moons, checkpoint=tmp_path)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    for model in (kept, resumed):
        np.testing.assert_array_equal(answers(model), answers(plain))
        assert model.health_.acceptance == plain.health_.acceptance


class Shell(BaseEstimator):
    """A step of one's own, which knows nothing of checkpoints."""

    def fit(self, points, labels, *, generator=None):
        self.radius_ = 3 + torch.rand(1, generator=generator)
        return self

    def sample(self, n_points, *, generator):
        z = torch.randn(n_points, 2, generator=generator)
        return self.radius_ * z / z.norm(dim=1, keepdim=True)


def test_a_step_that_takes_no_checkpoint_is_fitted_again_from_the_same_stream(
    moons, tmp_path, monkeypatch
):
    settings = {"boundary": Shell()}
    expected = tiny(**settings).fit(*moons).predict_proba(GRID)
    ctrl_c = CtrlC()
    monkeypatch.setattr("bacoun.classifier.progress_bars", ctrl_c.bars)
    model = tiny(**settings)
    assert fit_until_done(model, moons, lambda: Checkpoint(tmp_path, every_seconds=0)) > 6
    np.testing.assert_array_equal(model.predict_proba(GRID), expected)


# --- kill -9 ------------------------------------------------------------------------------------

# The parent stays out of torch, so that it can fork; each child fits, and most are killed.
FIT_UNTIL_DONE = """
import os, random, signal, sys, time, warnings
from pathlib import Path
import numpy as np
import torch._dynamo  # the optimizer would import it, and each child would wait for that
from bacoun import BaCOUnClassifier
from bacoun.checkpoint import Checkpoint
from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from bacoun.posterior import HMC

DEAD = os.WEXITED | os.WNOHANG | os.WNOWAIT
folder, data, out = sys.argv[1:]
X, y, grid = (np.load(data)[name] for name in ("X", "y", "grid"))

def attempt(checkpoint, out):
    warnings.simplefilter("ignore")
    model = BaCOUnClassifier(
        boundary=FlowShell(epochs=15, blocks=2, hidden=16),
        features=LearnedFeatures(hidden=(16, 64), epochs=30, learning_rate=1e-2, dropout=0.2),
        posterior=HMC(n_draws=50, n_chains=8, n_warmup=10, n_iterations=20),
        n_boundary=100,
        random_state=0,
    )
    np.save(out, model.fit(X, y, checkpoint=checkpoint).predict_proba_samples(grid))

def states():
    return set(Path(folder).glob("*/[0-9]*"))

def in_a_child(*args, seconds=None):
    before = states()
    child = os.fork()
    if child == 0:
        try:
            attempt(*args)
            os._exit(0)
        finally:
            os._exit(1)
    if seconds is not None:
        while states() <= before and os.waitid(os.P_PID, child, DEAD) is None:
            time.sleep(0.002)  # until it gets somewhere
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

started = time.perf_counter()
assert in_a_child(None, out + "-whole.npy") == 0
whole = time.perf_counter() - started
moments = random.Random(7)
killed = 0
for _ in range(5):
    seconds = moments.uniform(0, 0.3) * whole
    killed += in_a_child(Checkpoint(folder, 0), out + "-killed.npy", seconds=seconds) == -9
assert in_a_child(Checkpoint(folder, 0), out + "-killed.npy") == 0
print(killed)
"""


def test_a_fit_killed_at_random_moments_ends_as_if_it_had_not_been(moons, tmp_path):
    data = tmp_path / "data.npz"
    np.savez(data, X=moons[0], y=moons[1], grid=GRID)
    arguments = [str(tmp_path / "checkpoint"), str(data), str(tmp_path / "samples")]
    result = subprocess.run(
        [sys.executable, "-c", FIT_UNTIL_DONE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 3
    whole, killed = (np.load(f"{tmp_path}/samples-{name}.npy") for name in ("whole", "killed"))
    np.testing.assert_allclose(killed, whole, rtol=0, atol=1e-6)
    assert not list((tmp_path / "checkpoint").glob("*/.*"))  # what was cut short is swept up


# --- refusals and damage ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"X": 1e-3}, "the same X;"),
        ({"y": 1}, "the same y;"),
        ({"random_state": 1}, "the same settings;"),
        ({"boundary": FlowShell(**FLOW | {"epochs": 4})}, "the same settings;"),
        ({"X": 1e-3, "ood_prior": 0}, "the same X and settings;"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused_in_one_line(moons, tmp_path, change, named):
    X, y = moons
    model = tiny(boundary=FlowShell(**FLOW), posterior=Laplace(n_draws=20))
    model.fit(X, y, checkpoint=tmp_path)
    left = sorted(tmp_path.rglob("*"))
    X = X + change.pop("X", 0)
    y = np.roll(y, change.pop("y", 0))
    with pytest.raises(ValueError, match=named) as info:
        model.set_params(**change).fit(X, y, checkpoint=tmp_path)
    assert "Delete that folder to start anew, or choose another." in str(info.value)
    assert "\n" not in str(info.value)
    assert sorted(tmp_path.rglob("*")) == left


def test_a_checkpoint_of_another_version_is_refused(moons, tmp_path, monkeypatch):
    model = tiny(posterior=Laplace(n_draws=20)).fit(*moons, checkpoint=tmp_path)
    monkeypatch.setattr("bacoun.classifier.version", lambda name: "99.0")
    with pytest.raises(ValueError, match="the same version of bacoun; "):
        model.fit(*moons, checkpoint=tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(moons, tmp_path):
    (tmp_path / "notes").write_text("")
    with pytest.raises(ValueError, match=r"must be a folder; '.*notes' is a file\."):
        tiny().fit(*moons, checkpoint=tmp_path / "notes")


def test_the_kind_of_table_and_the_number_of_jobs_may_change(moons, tmp_path):
    X, y = moons
    model = tiny(posterior=Laplace(n_draws=20)).fit(X, y, checkpoint=tmp_path)
    again = tiny(posterior=Laplace(n_draws=20), n_jobs=1)
    again.fit(pd.DataFrame(X).to_numpy().tolist(), list(y), checkpoint=tmp_path)
    np.testing.assert_array_equal(answers(again), answers(model))


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_damaged_state_counts_as_absent(moons, tmp_path, name):
    expected = answers(tiny().fit(*moons, checkpoint=tmp_path))
    damaged = sorted(tmp_path.rglob(name))
    assert len(damaged) == 1 + 2 + 1 + 1  # the run, two flows, the network, the chains
    for file in damaged:
        file.write_bytes(file.read_bytes()[:50])
        np.testing.assert_array_equal(answers(tiny().fit(*moons, checkpoint=tmp_path)), expected)


# --- the folder ---------------------------------------------------------------------------------


def number(value):
    return lambda: {"value": value, "tensor": torch.tensor([value, float("nan")])}


def test_the_state_before_is_loaded_if_the_last_is_damaged(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path)
    with monkeypatch.context() as patch:  # killed before it could sweep up
        patch.setattr("bacoun.checkpoint.shutil.rmtree", lambda *args, **kwargs: None)
        for value in range(12):
            checkpoint.save("loop", number(value), now=True)
    assert checkpoint.load("loop")["value"] == 11
    last = max(tmp_path.glob("loop.checkpoint/*"), key=lambda entry: int(entry.name.split("-")[0]))
    (last / "model.safetensors").unlink()
    assert checkpoint.load("loop")["value"] == 10
    checkpoint.save("loop", number(99), now=True)
    assert checkpoint.load("loop")["value"] == 99
    assert len(list(tmp_path.glob("loop.checkpoint/*"))) == 1


def test_names_and_sections_do_not_meet(tmp_path):
    whole = Checkpoint(tmp_path)
    parts = [whole, whole.section("a"), whole.section("b"), whole.section("a").section("b")]
    for value, part in enumerate(parts):
        assert part.load("loop") is None
        part.save("loop", number(value), now=True)
    assert [part.load("loop")["value"] for part in parts] == [0, 1, 2, 3]
    assert pickle.loads(pickle.dumps(parts[3])).load("loop")["value"] == 3
    parts[1].clear()
    assert [part.load("loop") is None for part in parts] == [False, True, False, True]


def test_clearing_leaves_nothing_of_ours_and_all_that_is_not(tmp_path):
    folder = tmp_path / "folder"
    checkpoint = Checkpoint(folder)
    checkpoint.clear()
    checkpoint.save("loop", number(1), now=True)
    checkpoint.section("part").save("loop", number(1), now=True)
    (folder / "thesis.tex").write_text("years of work")
    checkpoint.clear()
    assert [file.name for file in folder.iterdir()] == ["thesis.tex"]
    (folder / "thesis.tex").unlink()
    checkpoint.clear()
    assert not folder.exists()


def test_saves_are_rationed_over_all_sections_and_states_not_even_built(tmp_path):
    clock = Clock()
    checkpoint = Checkpoint(tmp_path, every_seconds=10, clock=clock)
    built = []

    def state():
        built.append(clock.now)
        return {}

    for _ in range(20):
        checkpoint.section("a").save("loop", state)
        checkpoint.section("b").save("loop", state)
    assert len(built) == 4
    assert min(np.diff(built)) >= 10
    checkpoint.save("loop", state, now=True)
    checkpoint.save("loop", state, now=True)
    assert built[-1] - built[-2] <= 1


def test_training_writes_once_a_minute_and_at_the_end(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        "bacoun.checkpoint.write_model",
        lambda content, path, overwrite: written.append(len(content["train"])),
    )
    module = nn.Linear(1, 1)
    train(
        module,
        lambda batch: module(batch).mean(),
        [torch.zeros(4, 1)],
        epochs=150,
        batch_size=4,
        learning_rate=0.1,
        generator=torch.Generator().manual_seed(0),
        checkpoint=Checkpoint(tmp_path, clock=Clock()),  # an epoch takes a second
    )
    assert written == [60, 120, 150]


class Loose:
    """An object of which only the class is known."""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [12]),
        (["a", "b"], ["ab"]),
        ([[1], 2], [[1, 2]]),
        (1, 1.0),
        (None, "None"),
        ({"a": 1}, {"b": 1}),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2), torch.zeros(2).double()),
        (np.zeros(2), np.ones(2)),
        (np.array(["a"], dtype=object), np.array(["b"], dtype=object)),
        (range(2), range(3)),
        (HMC(), HMC(n_draws=7)),
        (nn.Linear(1, 1), nn.Linear(1, 1)),
    ],
)
def test_fingerprints_tell_values_apart(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 2.0), [np.int64(1), np.float64(2.0)]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (Loose(), Loose()),
        (np.random.RandomState(0), np.random.RandomState(0)),
        (FlowShell(n_jobs=2), FlowShell()),
        (np.asfortranarray(np.ones((2, 3))), np.ones((2, 3))),
    ],
)
def test_fingerprints_of_equals_are_equal(one, other):
    assert fingerprint(one) == fingerprint(other)
