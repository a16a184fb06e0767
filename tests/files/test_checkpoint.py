"""A fit that was stopped, however often and wherever, ends as if it had not been."""

import os
import shutil
import subprocess
import sys
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator
from torch import nn

from bacoun import BaCOUnClassifier
from bacoun.boundary import CompactShell, FlowOutlierRemover, FlowShell
from bacoun.features import LearnedFeatures
from bacoun.files.checkpoint import Checkpoint, fingerprint
from bacoun.posterior import HMC, Laplace, MeanField
from bacoun.posterior.hmc import _Chains
from bacoun.protocols import FitContext
from bacoun.steps import fit_step

GRID = np.random.default_rng(0).uniform(-4, 4, (40, 2))
FLOW = {"epochs": 3, "blocks": 2, "hidden": 8, "batch_size": 32}


def tiny(**settings):
    """Steps with all that carries state: early stopping, dropout, batch norm, warm-up."""
    small = {
        "boundary": FlowShell(patience=2, batch_norm=True, **FLOW),
        "features": LearnedFeatures(
            hidden=(8, 16), epochs=4, learning_rate=1e-2, patience=1, dropout=0.2
        ),
        "posterior": HMC(n_draws=20, n_chains=4, n_warmup=2, n_iterations=4),
        "n_boundary": 40,
        "random_state": 0,
    }
    return BaCOUnClassifier(**(small | settings))


def answers(model):
    return np.concatenate([model.predict_proba_samples(GRID).ravel(), model.log_density(GRID)])


@pytest.fixture(autouse=True)
def _chains_need_not_settle():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* has not converged")
        yield


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


@pytest.mark.parametrize("every_seconds", [0, 3600])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {
            "boundary": CompactShell(n_components=1, shell=FlowShell(**FLOW)),
            "posterior": Laplace(n_draws=20),
        },
        {"posterior": MeanField(n_draws=20, n_iterations=12, batch_size=64)},
        {"contamination": 0.1},
    ],
    ids=["hmc", "compact", "mean-field", "contamination"],
)
def test_a_fit_interrupted_in_every_epoch_ends_as_if_it_had_not_been(
    moons, tmp_path, monkeypatch, settings, every_seconds
):
    remover = partial(FlowOutlierRemover, epochs=3, blocks=1, hidden=8)
    monkeypatch.setattr("bacoun.boundary.outliers.FlowOutlierRemover", remover)
    expected = answers(tiny(**settings).fit(*moons))
    ctrl_c = CtrlC()
    monkeypatch.setattr("bacoun.fitting.progress_bars", ctrl_c.bars)
    model = tiny(**settings)
    n_interrupted = fit_until_done(model, moons, lambda: Checkpoint(tmp_path, every_seconds))
    assert n_interrupted == len(ctrl_c.heard) >= 3 + 3
    np.testing.assert_array_equal(answers(model), expected)


def test_without_a_seed_the_attempts_are_still_one_fit(moons, tmp_path):
    first = tiny(random_state=None).fit(*moons, checkpoint=tmp_path)
    again = tiny(random_state=None).fit(*moons, checkpoint=tmp_path)
    np.testing.assert_array_equal(answers(again), answers(first))
    assert not np.array_equal(answers(tiny(random_state=None).fit(*moons)), answers(first))


def test_a_finished_fit_is_not_done_again(moons, tmp_path, monkeypatch):
    model = tiny().fit(*moons, checkpoint=tmp_path)
    monkeypatch.setattr(
        "bacoun.engine.training._one_epoch", lambda *args: pytest.fail("trained again")
    )
    monkeypatch.setattr("bacoun.posterior.hmc.integrate", lambda *args: pytest.fail("drawn again"))
    again = tiny().fit(*moons, checkpoint=tmp_path)
    np.testing.assert_array_equal(answers(again), answers(model))
    assert again.health_ == model.health_
    assert torch.equal(again.features_.held_out_rows_, model.features_.held_out_rows_)
    assert again.doubt_ == model.doubt_


def test_a_finished_step_is_loaded_to_the_device_of_the_data(tmp_path):
    class Recording(Checkpoint):
        def load(self, name, device="cpu"):
            self.device = torch.device(device)
            return super().load(name)

    checkpoint = Recording(tmp_path / "fit")
    context = FitContext(generator=torch.Generator(), checkpoint=checkpoint)
    points, labels = torch.randn(60, 2), torch.arange(60) % 2
    fit_step("boundary", FlowShell(epochs=1), points, labels, context=context)
    elsewhere = points.to("meta"), labels.to("meta")  # a device that every machine has
    loaded = fit_step("boundary", FlowShell(epochs=1), *elsewhere, context=context)
    assert checkpoint.device == torch.device("meta")
    assert len(loaded.flows_) == 2


def test_what_a_killed_removal_left_is_replaced(tmp_path):
    """Only the tensors are left of a state whose removal was interrupted."""
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save("features", {"weights": torch.ones(2)})
    (tmp_path / "features.checkpoint" / "model.json").unlink()
    checkpoint.save("features", {"weights": torch.zeros(2)})
    assert torch.equal(checkpoint.load("features")["weights"], torch.zeros(2))


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

    def fit(self, points, labels, context):
        self.radius_ = 3 + torch.rand(1, generator=context.generator)
        return self

    def sample(self, n_points, *, generator):
        z = torch.randn(n_points, 2, generator=generator)
        return self.radius_ * z / z.norm(dim=1, keepdim=True)


def test_a_step_without_state_is_fitted_again_from_the_same_stream(moons, tmp_path, monkeypatch):
    settings = {"boundary": Shell()}
    expected = tiny(**settings).fit(*moons).predict_proba(GRID)
    ctrl_c = CtrlC()
    monkeypatch.setattr("bacoun.fitting.progress_bars", ctrl_c.bars)
    model = tiny(**settings)
    assert fit_until_done(model, moons, lambda: Checkpoint(tmp_path, every_seconds=0)) > 6
    np.testing.assert_array_equal(model.predict_proba(GRID), expected)


# --- kill -9 ------------------------------------------------------------------------------------

# The parent stays out of torch, so that it can fork; each child fits, and most are killed.
FIT_UNTIL_DONE = """
import os, random, sys, warnings
import numpy as np
import torch._dynamo  # the optimizer would import it, and each child would wait for that
from bacoun import BaCOUnClassifier
from bacoun.files.checkpoint import Checkpoint
from bacoun.boundary import FlowShell
from bacoun.features import LearnedFeatures
from bacoun.posterior import HMC
from tests.kills import changes_of

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

def in_a_child(*args, kill_at=None):
    child = os.fork()
    if child == 0:
        try:
            changes_of(folder, kill_at=kill_at)
            attempt(*args)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

assert in_a_child(None, out + "-whole.npy") == 0
moments = random.Random(7)
codes = [
    in_a_child(Checkpoint(folder, 0), out + "-killed.npy", kill_at=moments.randint(3, 60))
    for _ in range(5)
]
assert in_a_child(Checkpoint(folder, 0), out + "-killed.npy") == 0
print(codes.count(-9))
"""


def test_a_fit_killed_at_changes_of_its_checkpoint_ends_as_if_it_had_not_been(moons, tmp_path):
    data = tmp_path / "data.npz"
    np.savez(data, X=moons[0], y=moons[1], grid=GRID)
    arguments = [str(tmp_path / "checkpoint"), str(data), str(tmp_path / "samples")]
    result = subprocess.run(
        [sys.executable, "-c", FIT_UNTIL_DONE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 3
    whole, killed = (np.load(f"{tmp_path}/samples-{name}.npy") for name in ("whole", "killed"))
    np.testing.assert_allclose(killed, whole, rtol=0, atol=1e-6)


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
    monkeypatch.setattr("bacoun.fitting.version", lambda name: "99.0")
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
    assert len(damaged) == 1 + 3  # the run and the steps
    for file in damaged:
        file.write_bytes(file.read_bytes()[:50])
        np.testing.assert_array_equal(answers(tiny().fit(*moons, checkpoint=tmp_path)), expected)


# --- the folder ---------------------------------------------------------------------------------


def test_a_state_is_replaced_by_the_next_and_absent_if_damaged(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.load("loop") is None
    for value in range(3):
        checkpoint.save("loop", {"value": value, "tensor": torch.tensor([value, float("nan")])})
    assert checkpoint.load("loop")["value"] == 2
    assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "loop.checkpoint" / "model.safetensors").unlink()
    assert checkpoint.load("loop") is None


def test_clearing_leaves_nothing_of_ours_and_all_that_is_not(tmp_path):
    folder = tmp_path / "folder"
    checkpoint = Checkpoint(folder)
    checkpoint.clear()
    checkpoint.save("loop", {})
    (folder / ".loop.checkpoint.0123abcd.tmp").mkdir()  # what a killed process leaves
    (folder / "thesis.tex").write_text("years of work")
    checkpoint.clear()
    assert [file.name for file in folder.iterdir()] == ["thesis.tex"]
    (folder / "thesis.tex").unlink()
    checkpoint.clear()
    assert not folder.exists()


def test_a_save_is_due_after_a_while(tmp_path):
    assert not Checkpoint(tmp_path, every_seconds=3600).is_due()
    checkpoint = Checkpoint(tmp_path, every_seconds=0)
    assert checkpoint.is_due()
    checkpoint.every_seconds = 3600
    checkpoint.save("loop", {})
    assert not checkpoint.is_due()


def test_the_sampler_saves_its_chains_while_it_runs(moons, tmp_path, monkeypatch):
    """What is lost is not the whole sampling, which may take an hour."""
    expected = answers(tiny().fit(*moons))
    ctrl_c = CtrlC()
    ctrl_c.heard = [(name, epoch) for name in ("boundary", "features") for epoch in range(99)]
    ctrl_c.heard += [("posterior", epoch) for epoch in range(4)]
    with monkeypatch.context() as patch:
        patch.setattr("bacoun.fitting.progress_bars", ctrl_c.bars)
        with pytest.raises(KeyboardInterrupt):
            tiny().fit(*moons, checkpoint=Checkpoint(tmp_path, every_seconds=0))
    assert (tmp_path / "chains.checkpoint").is_dir()
    n_advanced = []
    advance = _Chains.advance
    monkeypatch.setattr(_Chains, "advance", lambda *args: n_advanced.append(advance(*args)))
    resumed = tiny().fit(*moons, checkpoint=tmp_path)
    assert len(n_advanced) < 2 + 4
    np.testing.assert_array_equal(answers(resumed), expected)


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


HOLDING = """
import signal, sys
import torch
from bacoun.files.checkpoint import Checkpoint
Checkpoint(sys.argv[1]).begin({"data": 1}, torch.Generator())
print("begun", flush=True)
signal.pause()
"""


def test_two_processes_cannot_share_a_checkpoint(tmp_path):
    """30.11: one of two fits to the same output took the other's network."""
    words = [sys.executable, "-c", HOLDING, str(tmp_path / "fit")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "begun\n"
        with pytest.raises(ValueError, match="another fit is using the checkpoint"):
            Checkpoint(tmp_path / "fit").begin({"data": 1}, torch.Generator())
        other.kill()
    Checkpoint(tmp_path / "fit").begin({"data": 1}, torch.Generator())  # what is left is resumed


def test_a_state_of_another_run_is_not_loaded(tmp_path):
    """30.11: each step is bound to the data and settings it was fitted with."""
    first = Checkpoint(tmp_path / "fit")
    first.begin({"data": 1}, torch.Generator())
    first.save("features", {"weights": 1.0})
    state = first.folder / "features.checkpoint"
    kept = shutil.copytree(state, tmp_path / "kept")
    first.clear()
    second = Checkpoint(tmp_path / "fit")
    second.begin({"data": 2}, torch.Generator())
    shutil.copytree(kept, state)
    assert second.load("features") is None
    second.save("features", {"weights": 2.0})
    assert second.load("features") == {"weights": 2.0}
    second.clear()
    assert not (tmp_path / "fit").exists()
