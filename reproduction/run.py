"""Compute missing records: one task for each method and seed, in parallel if asked for."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from reproduction.methods import make_method
from reproduction.results import Record, load_records, record_path
from reproduction.schema import Experiment
from reproduction.studies import STUDIES

OnRecord = Callable[[int, int, str], None]
"""Called with the number of records there are, the number wanted, and what was done last."""

_VERSIONS = ("python", "bacoun", "torch", "zuko", "scikit-learn", "pyro-ppl", "gpytorch", "nutpie")


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    n_jobs: int | None = None,
    on_record: OnRecord | None = None,
) -> list[Record]:
    """Fit and measure every method with every seed that `folder` has no record of yet.

    A record with other settings is recomputed. `n_jobs` processes do it; None: one, or as many as
    `joblib.parallel_config` says.
    """
    if experiment.study not in STUDIES:
        raise ValueError(
            f"the study of an experiment must be one of {sorted(STUDIES)}; got "
            f"{experiment.study!r}."
        )
    tasks = [(method, seed) for method in experiment.methods for seed in experiment.seeds]
    missing = [task for task in tasks if not _is_done(experiment, folder, *task)]
    done = len(tasks) - len(missing)
    if on_record is not None:
        on_record(done, len(tasks), "")
    if n_jobs is not None:
        n_jobs = min(n_jobs, max(1, len(missing)))
    run, is_alone = delayed(_run_one), effective_n_jobs(n_jobs) == 1
    results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        run(experiment, folder, *task, alone=is_alone) for task in missing
    )
    for label in results:
        done += 1
        if on_record is not None:
            on_record(done, len(tasks), label)
    wanted = set(tasks)
    return [r for r in load_records(folder, experiment) if (r.method, r.seed) in wanted]


def _run_one(
    experiment: Experiment, folder: Path, method: str, seed: int, alone: bool = False
) -> str:
    if not alone:
        torch.set_num_threads(1)
    experiment, method = experiment.origin(method)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        numbers, arrays = STUDIES[experiment.study](experiment, method, seed)
    not_converged = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    if not_converged:
        numbers["warnings"] = not_converged
    Record(
        experiment=experiment.name,
        method=method,
        seed=seed,
        command=f"python -m reproduction {experiment.name}{' --quick' if experiment.quick else ''}",
        settings=_settings(experiment, method),
        versions={name: _installed(name) for name in _VERSIONS},
        seconds=round(time.perf_counter() - started, 1),
        numbers=numbers,
        arrays=arrays,
    ).save(folder)
    return f"{method}, seed {seed}"


def _settings(experiment: Experiment, method: str) -> dict[str, Any]:
    """All settings that decide a record, apart from its seed."""
    own = experiment.methods[method]
    settings = {
        "study": experiment.study,
        "dataset": experiment.dataset,
        "options": experiment.options,
        "method": own,
    }
    if "preset" not in own:
        return settings
    # What a preset stands for may change, and its records with it.
    values = make_method(own, seed=0).get_params().items()
    plain = {name: str(value) for name, value in values if not hasattr(value, "get_params")}
    return settings | {"preset": plain}


def _is_done(experiment: Experiment, folder: Path, method: str, seed: int) -> bool:
    experiment, method = experiment.origin(method)
    path = record_path(folder, experiment.name, method, seed)
    return path.exists() and Record.load(path).settings == _settings(experiment, method)


def _installed(name: str) -> str | None:
    if name == "python":
        return platform.python_version()
    try:
        return version(name)
    except PackageNotFoundError:
        return None
