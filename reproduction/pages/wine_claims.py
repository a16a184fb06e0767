"""What the paper says of wine, checked against the records."""

from __future__ import annotations

from collections.abc import Iterable

from reproduction.pages.claims import (
    BOTH,
    Claim,
    Results,
    above,
    all_of,
    below,
    by_method,
)
from reproduction.pages.names import PAPER_BASELINES
from reproduction.pages.tables import number

_REGIONS = ("in", "held-out", "6", "ood")


def _by_region(r: Results, methods: Iterable[str], part: str) -> str:
    columns = {name: f"{part}/{name}" for name in _REGIONS}
    return by_method(r, f"{part.capitalize()} uncertainty.", "wine", methods, columns)


def _auc(r: Results) -> str:
    methods = (*BOTH, *PAPER_BASELINES, "GP", "Deep ensemble")
    columns = {"AUC": "auc", "AUC without copies of training rows": "auc_of_new"}
    return by_method(r, "Class 5 against class 7.", "wine", methods, columns)


def _is_best(r: Results, variant: str) -> str:
    own = r.values("wine", variant, "auc")
    return all_of(above(own, r.values("wine", m, "auc")) for m in PAPER_BASELINES)


def _epistemic(r: Results) -> str:
    noticed = []
    for variant in BOTH:
        areas = r.values("wine", variant, "auroc/epistemic/ood")
        noticed.append(
            f"{variant}: AUROC of OOD above 0.9 in {int((areas > 0.9).sum())} of {len(areas)} "
            f"seeds, smallest {number(float(areas.min()))}"
        )
    return f"{'; '.join(noticed)}. {_by_region(r, BOTH, 'epistemic')}"


def _is_less_sure(r: Results, variant: str) -> str:
    inside, held_out, ood = (
        r.values("wine", variant, f"epistemic/{name}") for name in ("in", "held-out", "ood")
    )
    # The paper's means differ by factors of 1.36 and 7.5.
    return all_of([above(held_out, 1.1 * inside), above(ood, 3 * inside)])


def _baselines(r: Results) -> str:
    return _by_region(r, ("BNN", "NLM", "MC-Dropout"), "epistemic")


def _are_surer(r: Results, variant: str) -> str:
    def grows(method: str) -> str:
        inside, ood = (r.values("wine", method, f"epistemic/{n}") for n in ("in", "ood"))
        return above(ood, inside) if method == "MC-Dropout" else below(ood, inside)

    return all_of(grows(method) for method in PAPER_BASELINES)


def _aleatoric(r: Results) -> str:
    return _by_region(r, BOTH, "aleatoric")


def _is_between(r: Results, variant: str) -> str:
    inside, six, ood = (r.values("wine", variant, f"aleatoric/{n}") for n in ("in", "6", "ood"))
    return all_of([above(six, inside), below(ood, inside)])


def _mcd(r: Results) -> str:
    return _by_region(r, ["MC-Dropout"], "aleatoric")


def _is_largest(r: Results, variant: str) -> str:
    ood = r.values("wine", "MC-Dropout", "aleatoric/ood")
    others = (r.values("wine", "MC-Dropout", f"aleatoric/{n}") for n in ("in", "held-out"))
    return all_of(above(ood, other) for other in others)


WINE_CLAIMS = (
    Claim("Wine table", "BaCOUn attains the highest AUC.", _auc, _is_best),
    Claim(
        "Wine table",
        "BaCOUn is less sure of held-out classes and much less sure of OOD wines.",
        _epistemic,
        _is_less_sure,
    ),
    Claim(
        "Wine table",
        "BNN and NLM are surer of OOD wines than of real ones; only MC-Dropout notices them.",
        _baselines,
        _are_surer,
        shared=True,
    ),
    Claim(
        "Wine table",
        "BaCOUn's aleatoric uncertainty is higher for class 6, which lies between the classes, and "
        "lower for OOD wines.",
        _aleatoric,
        _is_between,
    ),
    Claim(
        "section 5",
        "MC-Dropout's aleatoric uncertainty is largest for OOD wines.",
        _mcd,
        _is_largest,
        "In the paper's table it is larger than that of known and of held-out classes, and smaller "
        "than that of class 6.",
        shared=True,
    ),
)
