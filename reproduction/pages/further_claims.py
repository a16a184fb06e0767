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
    by_method,
    told,
)

_WIDTHS = (64, 256, 1024)
_DETECTORS = ("Flow", "Isolation forest", "Local outlier factor")


def _width(r: Results) -> str:
    return told(
        "Smallest epistemic uncertainty of 200 directions at three radii, by width.",
        "method",
        BOTH,
        map(str, _WIDTHS),
        lambda m, width: r.show("width", f"{m}, {width} wide", "rays/smallest_far"),
    )


def _wider_is_better(r: Results, variant: str) -> str:
    narrow, _, wide = (
        r.values("width", f"{variant}, {w} wide", "rays/smallest_far") for w in _WIDTHS
    )
    return above(wide, narrow)


def _mitigated(r: Results) -> str:
    return told(
        "Accuracy of the K+1 network, whose extra class costs it points -> of the Bayesian head.",
        "method",
        BOTH,
        ("gmm", "moons", "wine"),
        lambda m, e: f"{r.show(e, m, 'network_accuracy')} -> {r.show(e, m, 'accuracy')}",
    )


def _head_is_as_accurate(r: Results, variant: str) -> str:
    return all_of(
        above(r.values(e, variant, "accuracy"), r.values(e, variant, "network_accuracy") - 0.002)
        for e in ("gmm", "moons", "wine")
    )


def _attacked(r: Results) -> str:
    methods = ("NLM", "MC-Dropout", "Deep ensemble", "GP", *BOTH)
    lead = "Share of points with an epistemic uncertainty below that of 95 % of test points."
    columns = {"before the attack": "passes/before", "after": "passes/after"}
    return by_method(r, lead, "attack", methods, columns)


def _withstands(r: Results, variant: str) -> str:
    nlm, own = (r.values("attack", m, "passes/after") for m in ("NLM", variant))
    return all_of([above(nlm, 0.5), below(own, 0.2)])


def _split(r: Results) -> str:
    return told(
        "Epistemic uncertainty due to the weights + due to being OOD. Without doubt the second is "
        "0 by construction, and what the weights say far away is weighed.",
        "method",
        BOTH,
        ("test", "middle", "out"),
        lambda m, k: f"{r.show('gmm', m, f'model/{k}')} + {r.show('gmm', m, f'ood/{k}')}",
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
    columns = {"AUROC": "auroc", "precision of the removed 200": "precision_of_removed"}
    return by_method(r, "Outliers told from moons.", "outliers", _DETECTORS, columns)


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
