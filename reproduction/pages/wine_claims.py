"""What the paper says of wine, checked against the records."""

from __future__ import annotations

from collections.abc import Callable

from reproduction.pages.claims import Claim, Results, listed, verdict
from reproduction.pages.names import PAPER_BASELINES
from reproduction.pages.tables import number, spread


def _wine_auc(r: Results) -> tuple[str, str]:
    methods = ("BaCOUn", "BaCOUn, paper", *PAPER_BASELINES, "GP", "Deep ensemble")
    means = {m: r.mean("wine", m, "auc") for m in methods}
    best = max(means, key=lambda m: means[m])
    text = f"AUC on classes 5 against 7: {listed(r, 'wine', 'auc', methods)}. Best: {best}."
    return text, verdict(means["BaCOUn, paper"] >= max(means[m] for m in PAPER_BASELINES))


def _wine_epistemic(method: str) -> Callable[[Results], tuple[str, str]]:
    def weigh(r: Results) -> tuple[str, str]:
        held_out = r.values("wine", method, "epistemic/held-out")
        inside = r.values("wine", method, "epistemic/in")
        ood = r.values("wine", method, "epistemic/ood")
        text = (
            f"epistemic of {method}: In {spread(inside)}, held-out {spread(held_out)}, OOD "
            f"{spread(ood)}; mean OOD / In {ood.mean() / inside.mean():.1f}, held-out / In "
            f"{held_out.mean() / inside.mean():.2f}; AUROC In against OOD "
            f"{r.show('wine', method, 'auroc/epistemic/ood')}, smallest "
            f"{number(float(r.values('wine', method, 'auroc/epistemic/ood').min()))}."
        )
        return text, verdict(held_out.mean() > 1.2 * inside.mean(), ood.mean() > 5 * inside.mean())

    return weigh


def _wine_baselines(r: Results) -> tuple[str, str]:
    ratio = {
        m: r.mean("wine", m, "epistemic/ood") / r.mean("wine", m, "epistemic/in")
        for m in ("BNN", "NLM", "MC-Dropout")
    }
    text = "mean epistemic OOD / In: " + ", ".join(f"{m} {v:.2f}" for m, v in ratio.items())
    return text + ".", verdict(ratio["BNN"] < 1, ratio["NLM"] < 1, ratio["MC-Dropout"] > 1)


def _wine_aleatoric(r: Results) -> tuple[str, str]:
    text, good = [], []
    for m in ("BaCOUn", "BaCOUn, paper"):
        inside, six, ood = (r.mean("wine", m, f"aleatoric/{k}") for k in ("in", "6", "ood"))
        text.append(
            f"{m}: In {r.show('wine', m, 'aleatoric/in')}, class 6 "
            f"{r.show('wine', m, 'aleatoric/6')}, OOD {r.show('wine', m, 'aleatoric/ood')}"
        )
        good += [six > inside, ood < inside]
    return "aleatoric of " + "; ".join(text) + ".", verdict(*good)


def _wine_mcd(r: Results) -> tuple[str, str]:
    regions = ("in", "held-out", "6", "ood")
    values = {k: r.mean("wine", "MC-Dropout", f"aleatoric/{k}") for k in regions}
    text = "aleatoric of MC-Dropout: " + ", ".join(f"{k} {number(v)}" for k, v in values.items())
    return text + ".", verdict(values["ood"] > values["in"])


WINE_CLAIMS = (
    Claim("Wine table", "BaCOUn attains the highest AUC.", _wine_auc),
    Claim(
        "Wine table",
        "BaCOUn, as the paper sets it, is less sure of held-out classes and much less sure of "
        "OOD wines.",
        _wine_epistemic("BaCOUn, paper"),
    ),
    Claim("Wine table", "The same, with our default settings.", _wine_epistemic("BaCOUn")),
    Claim(
        "Wine table",
        "BNN and NLM are surer of OOD wines than of real ones; only MC-Dropout notices them.",
        _wine_baselines,
    ),
    Claim(
        "Wine table",
        "BaCOUn's aleatoric uncertainty is higher for class 6, which lies between the classes, and "
        "lower for OOD wines.",
        _wine_aleatoric,
    ),
    Claim("section 5", "MC-Dropout's aleatoric uncertainty is largest for OOD wines.", _wine_mcd),
)
