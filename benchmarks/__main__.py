"""Run the benchmarks that have no record yet, then print the tables and plot the chart.

    python -m benchmarks            all benchmarks
    python -m benchmarks samplers   one of them; ablations, accidents, accuracy, beside_forest,
                                    bounds, costs, deferral, drift, embeddings, explanations,
                                    fit_time, flows, ood, out_of_core, scale, scoring, serve and
                                    wide have their own records;
                                    ood-slow extends that of ood by slow methods, embeddings/CASE
                                    that of embeddings by one case

Each measurement runs in its own process, so that its peak memory can be measured and a sampler
that takes longer than twenty minutes can be stopped.
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bacoun.posterior import HMC, Laplace, MeanField
from bacoun.posterior.diagnostics import chain_statistics
from bacoun.protocols import FitContext
from bacoun.uncertainty import decompose
from benchmarks import (
    ablations,
    accidents,
    accuracy,
    beside_forest,
    bounds,
    costs,
    deferral,
    drift,
    embeddings,
    explanations,
    fit_time,
    flows,
    ood,
    out_of_core,
    scale,
    scoring,
    serve,
    wide,
)
from benchmarks.heads import Head, gmm_head, mnist_size_head, synthetic_head, wine_head
from benchmarks.samplers import SAMPLERS

RECORD = Path(__file__).with_name("posterior.json")
CHART = Path(__file__).with_name("posterior.png")
CACHE = Path(__file__).with_name(".heads")
CAP_SECONDS = 20 * 60
GROWTH = (1_000, 10_000, 100_000)


STUDIES: dict[str, Callable[[], None]] = {
    "ablations": ablations.main,
    "accuracy": accuracy.main,
    "accidents": accidents.main,
    "beside_forest": beside_forest.main,
    "bounds": bounds.main,
    "costs": costs.main,
    "deferral": deferral.main,
    "drift": drift.main,
    "embeddings": embeddings.main,
    "explanations": explanations.main,
    "fit_time": fit_time.main,
    "flows": flows.main,
    "ood": ood.main,
    "out_of_core": out_of_core.main,
    "ood-slow": partial(ood.main, slow=True),
    "scale": scale.main,
    "scoring": scoring.main,
    "serve": serve.main,
    "wide": wide.main,
}
STUDIES |= {f"embeddings/{case}": partial(embeddings.main, (case,)) for case in embeddings.CASES}
BUILD = {"gmm": gmm_head, "wine": wine_head, "mnist-size": mnist_size_head}


def cached(name: str, build: Callable[[], Head]) -> Head:
    """Build a head once, so that every sampler gets the same numbers."""
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"{name}.pt"
    if not path.exists():
        head = build()
        torch.save([head.name, head.features, head.labels, head.asked_in, head.asked_out], path)
    return Head(*torch.load(path))


def run_sampler(head_name: str, build: Callable[[], Head], sampler: str) -> dict[str, Any]:
    """Speed and agreement of one sampler on one head."""
    head = cached(head_name, build)
    sampled = SAMPLERS[sampler](head)
    n_chains, n_iterations = sampled.logits.shape[:2]
    quantities = sampled.logits.reshape(n_chains, n_iterations, -1)
    statistics = chain_statistics(quantities)
    return {
        "seconds": sampled.seconds,
        "draws": n_chains * n_iterations,
        "ess": statistics["ess"],
        "ess_squares": statistics["ess_squares"],
        "rhat": statistics["rhat"],
        "ess_per_second": statistics["ess"] / sampled.seconds,
        "ess_squares_per_second": statistics["ess_squares"] / sampled.seconds,
        "epistemic_in": float(decompose(sampled.inside).epistemic.mean()),
        "epistemic_out": float(decompose(sampled.outside).epistemic.mean()),
    }


def run_growth(n_points: int, sampler: str) -> dict[str, Any]:
    """One sampler on a synthetic head of the given size."""
    return run_sampler(f"synthetic-{n_points}", lambda: synthetic_head(n_points), sampler)


def run_mnist_size() -> dict[str, Any]:
    """Exact HMC on 60,000 x 1025 x 10."""
    head = cached("mnist-size", mnist_size_head)
    posterior = HMC(prior_scale=1.0).fit(
        head.features, head.labels, FitContext(generator=torch.Generator().manual_seed(0))
    )
    accuracy = posterior.predict_proba_samples(head.features[:5000]).mean(0).argmax(1)
    return {
        **{name: value for name, value in vars(posterior.health_).items() if value is not None},
        "train_accuracy": float((accuracy == head.labels[:5000]).double().mean()),
    }


def run_mean_field() -> dict[str, Any]:
    """Whether the bound of mean-field VI, set as in the paper, settles at 60,000 x 1025 x 10."""
    head = cached("mnist-size", mnist_size_head)
    posterior = MeanField(prior_scale=1.0).fit(
        head.features, head.labels, FitContext(generator=torch.Generator().manual_seed(0))
    )
    bound, tenth = np.array(posterior.elbo_), max(1, len(posterior.elbo_) // 10)
    last, before = bound[-tenth:].mean(), bound[-2 * tenth : -tenth].mean()
    winners = posterior.predict_proba_samples(head.features[:5000]).mean(0).argmax(1)
    return {
        "seconds": posterior.health_.seconds,
        "elbo_first": bound[0],
        "elbo_last_tenth": last,
        "elbo_gain_over_the_tenth_before": last - before,
        "train_accuracy": float((winners == head.labels[:5000]).double().mean()),
    }


def run_prediction(n_points: int = 20_000) -> dict[str, Any]:
    """Points a second with 500 draws: ours, the plain way, and our matrix products alone."""
    head = cached("gmm", gmm_head)
    posterior = HMC(prior_scale=1.0).fit(
        head.features, head.labels, FitContext(generator=torch.Generator().manual_seed(0))
    )
    rows = head.features[torch.arange(n_points) % len(head.features)]
    blocks = rows.split(4096)
    basis, flat = posterior.reduction_.basis.float(), posterior.weights_
    padded = torch.cat([rows, torch.ones(n_points, 1)], dim=1).split(4096)
    n_columns, n_draws = head.n_classes - 1, posterior.n_draws
    last = torch.zeros(len(basis), 1, n_draws)
    small = (basis @ flat[:-1]).unflatten(1, (n_columns, n_draws))
    weights = torch.cat([small, last], dim=1)  # (L + 1, K, S), one draw of v aside

    def ours() -> None:
        for block in blocks:
            posterior.predict_moments(block)

    def plain() -> None:
        for block in padded:
            logits = torch.einsum("nl,lks->snk", block, weights)
            decompose(logits.softmax(dim=2))

    def products_alone() -> None:
        for block in padded:
            q = block @ basis
            torch.cat([q, q[:, :1]], dim=1) @ flat

    def seconds(function: Callable[[], None]) -> float:
        started = time.perf_counter()
        function()
        return time.perf_counter() - started

    sample = posterior.predict_proba_samples(rows[:256])
    mean, entropy = posterior.predict_moments(rows[:256])
    agreement = float((mean - sample.mean(0)).abs().max())
    agreement = max(agreement, float((entropy - decompose(sample).aleatoric).abs().max()))
    # In turns, and the best of each: another job on the machine then disturbs all three alike.
    rounds = [[seconds(way) for way in (ours, plain, products_alone)] for _ in range(8)]
    best = [n_points / min(times) for times in zip(*rounds, strict=True)]
    found = dict(zip(("ours", "plain", "products_alone"), best, strict=True))
    return {
        **{f"{name}_points_per_second": value for name, value in found.items()},
        "times_plain": found["ours"] / found["plain"],
        "share_of_products_alone": found["ours"] / found["products_alone"],
        "largest_difference": agreement,
        "directions": basis.shape[1],
    }


def run_approximations() -> dict[str, Any]:
    """How far Laplace and mean-field VI are from exact HMC on the GMM head."""
    head = cached("gmm", gmm_head)
    rows = {"in": head.asked_in, "out": head.asked_out}
    same: dict[str, Any] = {"n_draws": 2000, "prior_scale": 1.0}
    kinds = {
        "HMC": HMC(**same),
        "Laplace": Laplace(**same),
        "Laplace, a factor for each contrast": Laplace(**same, full=False),
        "MeanField": MeanField(**same),
    }
    found: dict[str, Any] = {}
    exact: dict[str, torch.Tensor] = {}
    for name, posterior in kinds.items():
        posterior.fit(
            head.features, head.labels, FitContext(generator=torch.Generator().manual_seed(0))
        )
        for where, points in rows.items():
            samples = posterior.predict_proba_samples(points.double()).clamp(min=1e-300)
            odds = samples[:, :, 0].log() - samples[:, :, 1].log()
            exact.setdefault(f"p {where}", samples.mean(0))
            exact.setdefault(f"sd {where}", odds.std(0))
            found[f"{name}, {where}"] = {
                "epistemic": float(decompose(samples).epistemic.mean()),
                "mean difference of probabilities": float(
                    (samples.mean(0) - exact[f"p {where}"]).abs().mean()
                ),
                "log-odds sd over that of HMC": float(
                    (odds.std(0) / exact[f"sd {where}"]).median()
                ),
            }
    return found


def run_five_million() -> dict[str, Any]:
    """Score five million rows in a stream: seconds, rows a second."""
    head = cached("gmm", gmm_head)
    posterior = HMC(prior_scale=1.0).fit(
        head.features, head.labels, FitContext(generator=torch.Generator().manual_seed(0))
    )
    rows = head.features[:1024]
    epistemic = np.empty(5_000_000, dtype=np.float32)
    started = time.perf_counter()
    for start in range(0, len(epistemic), 1024):
        mean, entropy = posterior.predict_moments(rows[: len(epistemic) - start])
        total = torch.special.entr(mean).sum(dim=1)
        epistemic[start : start + 1024] = (total - entropy).numpy()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "rows_per_second": len(epistemic) / seconds}


def in_a_process(name: str) -> dict[str, Any]:
    """The answer of the named task with its peak memory, or what stopped it."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks", "--only", name]
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=CAP_SECONDS)
    except subprocess.TimeoutExpired:
        return {"stopped": f"exceeded {CAP_SECONDS} seconds"}
    if run.returncode != 0:
        return {"stopped": f"failed with exit code {run.returncode}"}
    return json.loads(run.stdout.splitlines()[-1])


def print_one(name: str) -> None:
    """Run one task here and print its answer as JSON."""
    found = tasks()[name]()
    found["peak_memory_gb"] = _peak_memory_gb()
    print(json.dumps(found))


def _peak_memory_gb() -> float:
    # ru_maxrss remembers the parent from before exec; Linux's own counter does not.
    status = Path("/proc/self/status")
    if status.exists():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def tasks() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every measurement by name; the first part of a name is the part of the benchmark."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    found["prediction/gmm"] = run_prediction
    found["mnist-size/bacoun HMC"] = run_mnist_size
    found["mnist-size/MeanField"] = run_mean_field
    for head in ("gmm", "wine"):
        for sampler in SAMPLERS:
            found[f"samplers/{head}/{sampler}"] = lambda h=head, s=sampler: run_sampler(
                h, BUILD[h], s
            )
    for n_points in GROWTH:
        for sampler in ("bacoun HMC", "nutpie, whitened"):
            found[f"growth/{n_points}/{sampler}"] = lambda n=n_points, s=sampler: run_growth(n, s)
    found["approximations/gmm"] = run_approximations
    found["prediction/five million rows"] = run_five_million
    return found


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main(parts: list[str]) -> None:
    """Measure what is missing and show everything."""
    known = {name.split("/")[0] for name in tasks()} | STUDIES.keys()
    if unknown := set(parts) - known:
        sys.exit(f"parts must be of {', '.join(sorted(known))}; got {', '.join(sorted(unknown))}.")
    if not parts or set(parts) - STUDIES.keys():
        measure_posterior(parts)
    for name, study in STUDIES.items():
        if name in parts or (not parts and "/" not in name):
            study()


def measure_posterior(parts: list[str]) -> None:
    """Measure what is missing of the named parts, or of all, and show everything."""
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"runs": {}}
    measured_with = record.get("versions", {})
    names = ("bacoun", "torch", "nutpie", "numpyro", "blackjax", "jax", "pyro-ppl")
    record |= {
        "command": "make bench",
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "versions": {name: _installed(name) or measured_with.get(name) for name in names},
    }
    for name, build in BUILD.items():
        cached(name, build)
    for name in tasks():
        if name in record["runs"] or (parts and name.split("/")[0] not in parts):
            continue
        print(f"measuring {name}", file=sys.stderr, flush=True)
        record["runs"][name] = in_a_process(name)
        print(record["runs"][name], file=sys.stderr, flush=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")
    from benchmarks.show import draw_chart, print_tables

    print_tables(record["runs"])
    draw_chart(record["runs"], CHART)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--only"]:
        print_one(sys.argv[2])
    else:
        main(sys.argv[1:])
