"""What the paper says of width, accuracy, attacks and outliers, checked against the records."""

from __future__ import annotations

import pandas as pd
from reproduction.pages.claims import (
    BOTH,
    OURS,
    Claim,
    Results,
    above,
    all_of,
    below,
    listed,
)

_WIDTHS = (64, 256, 1024)
_DETECTORS = ("Flow", "Isolation forest", "Local outlier factor")


def _width(r: Results) -> str:
    text = (
        f"{variant}: "
        + " / ".join(r.show("width", f"{variant}, {w} wide", "rays/smallest_far") for w in _WIDTHS)
        for variant in BOTH
    )
    return (
        "smallest epistemic of 200 directions at three radii, 64 / 256 / 1024 wide. "
        f"{'; '.join(text)}."
    )


def _wider_is_better(r: Results, variant: str) -> str:
    narrow, _, wide = (
        r.values("width", f"{variant}, {w} wide", "rays/smallest_far") for w in _WIDTHS
    )
    return above(wide, narrow)


def _mitigated(r: Results) -> str:
    text = (
        f"{experiment}, {m}: {r.show(experiment, m, 'network_accuracy')} -> "
        f"{r.show(experiment, m, 'accuracy')}"
        for experiment in ("gmm", "moons", "wine")
        for m in BOTH
    )
    return (
        "accuracy of the K+1 network, whose extra class costs it points, -> of the Bayesian head. "
        f"{'; '.join(text)}."
    )


def _head_is_as_accurate(r: Results, variant: str) -> str:
    return all_of(
        above(r.values(e, variant, "accuracy"), r.values(e, variant, "network_accuracy") - 0.002)
        for e in ("gmm", "moons", "wine")
    )


def _attacked(r: Results) -> str:
    methods = ("NLM", "MC-Dropout", "Deep ensemble", "GP", *BOTH)
    return (
        "attacked points that pass for familiar (epistemic below 95 % of test points'): "
        f"{listed(r, 'attack', 'passes/after', methods)}."
    )


def _withstands(r: Results, variant: str) -> str:
    nlm, own = (r.values("attack", m, "passes/after") for m in ("NLM", variant))
    return all_of([above(nlm, 0.5), below(own, 0.2)])


def _split(r: Results) -> str:
    text = (
        f"{m}: "
        + ", ".join(
            f"{k} {r.show('gmm', m, f'model/{k}')} + {r.show('gmm', m, f'ood/{k}')}"
            for k in ("test", "middle", "out")
        )
        for m in BOTH
    )
    return (
        f"epistemic due to the weights + due to being OOD. {'; '.join(text)}. Without doubt the "
        "second is 0 by construction, and what the weights say far away is weighed."
    )


def _is_model_then_ood(r: Results, variant: str) -> str:
    def of(part: str, region: str) -> pd.Series:
        return r.values("gmm", variant, f"{part}/{region}")

    if variant != OURS:
        return above(of("epistemic", "out"), of("epistemic", "middle"))
    return all_of(
        [
            above(of("model", "middle"), of("ood", "middle")),
            above(of("ood", "out"), of("model", "out")),
        ]
    )


def _outliers(r: Results) -> str:
    return (
        f"AUROC of the outliers: {listed(r, 'outliers', 'auroc', _DETECTORS)}; precision of the "
        f"removed 200: {listed(r, 'outliers', 'precision_of_removed', _DETECTORS)}."
    )


def _ranks_reliably(r: Results, variant: str) -> str:
    return above(r.values("outliers", "Flow", "auroc"), 0.9)


FURTHER_CLAIMS = (
    Claim(
        "appendix B",
        "A wider last layer expresses boundaries better.",
        _width,
        _wider_is_better,
    ),
    Claim(
        "appendix A",
        "What the extra class costs in accuracy is mitigated by the Bayesian classifier.",
        _mitigated,
        _head_is_as_accurate,
    ),
    Claim(
        "appendix F",
        "NLM could easily be attacked close to the data; BaCOUn not.",
        _attacked,
        _withstands,
    ),
    Claim(
        "introduction",
        "Epistemic uncertainty is model uncertainty at the class boundary and OOD uncertainty far "
        "away.",
        _split,
        _is_model_then_ood,
    ),
    Claim(
        "appendix H",
        "The flow's density ranks outliers reliably.",
        _outliers,
        _ranks_reliably,
        shared=True,
    ),
)
