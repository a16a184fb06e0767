"""What the paper says of width, accuracy, attacks and outliers, checked against the records."""

from __future__ import annotations

from reproduction.pages.claims import Claim, Results, listed, verdict
from reproduction.pages.tables import number


def _width(r: Results) -> tuple[str, str]:
    text, means = [], {}
    for doubt in ("BaCOUn, no doubt", "BaCOUn"):
        each = [r.show("width", f"{doubt}, {w} wide", "rays/smallest_far") for w in (64, 256, 1024)]
        means[doubt] = [
            r.mean("width", f"{doubt}, {w} wide", "rays/smallest_far") for w in (64, 256, 1024)
        ]
        text.append(f"{doubt}: {' / '.join(each)}")
    low, _, high = means["BaCOUn, no doubt"]
    return (
        "smallest epistemic over directions at three radii, 64 / 256 / 1024 wide. "
        + "; ".join(text)
        + ".",
        verdict(high > 1.5 * low),
    )


def _mitigated(r: Results) -> tuple[str, str]:
    methods = ("BaCOUn", "BaCOUn, paper")
    text, good = [], []
    for experiment in ("gmm", "moons", "wine"):
        for m in methods:
            head = r.mean(experiment, m, "accuracy")
            network = r.mean(experiment, m, "network_accuracy")
            text.append(f"{experiment}, {m}: {number(network)} -> {number(head)}")
            good.append(head >= network - 0.002)
    return (
        "accuracy of the K+1 network, whose extra class costs it points, -> of the Bayesian head. "
        + "; ".join(text)
        + ".",
        verdict(*good),
    )


def _attacked(r: Results) -> tuple[str, str]:
    methods = ("NLM", "MC-Dropout", "Deep ensemble", "GP", "BaCOUn, no doubt", "BaCOUn")
    text = (
        "attacked points that pass for familiar (epistemic below 95 % of test points'): "
        f"{listed(r, 'attack', 'passes/after', methods)}."
    )
    nlm, ours = (r.mean("attack", m, "passes/after") for m in ("NLM", "BaCOUn"))
    return text, verdict(nlm > 0.5, ours < 0.2)


def _split(r: Results) -> tuple[str, str]:
    regions = ("test", "middle", "out")
    text = "model + OOD of BaCOUn: " + "; ".join(
        f"{k} {r.show('gmm', 'BaCOUn', f'model/{k}')} + {r.show('gmm', 'BaCOUn', f'ood/{k}')}"
        for k in regions
    )
    middle = r.mean("gmm", "BaCOUn", "model/middle") > r.mean("gmm", "BaCOUn", "ood/middle")
    out = r.mean("gmm", "BaCOUn", "ood/out") > r.mean("gmm", "BaCOUn", "model/out")
    return text + ".", verdict(middle, out)


def _outliers(r: Results) -> tuple[str, str]:
    methods = ("Flow", "Isolation forest", "Local outlier factor")
    text = (
        f"AUROC of the outliers: {listed(r, 'outliers', 'auroc', methods)}; precision of "
        f"the removed 200: {listed(r, 'outliers', 'precision_of_removed', methods)}."
    )
    return text, verdict(r.mean("outliers", "Flow", "auroc") > 0.9)


FURTHER_CLAIMS = (
    Claim("appendix B", "A wider last layer expresses boundaries better.", _width),
    Claim(
        "appendix A",
        "What the extra class costs in accuracy is mitigated by the Bayesian classifier.",
        _mitigated,
    ),
    Claim("appendix F", "NLM could easily be attacked close to the data; BaCOUn not.", _attacked),
    Claim(
        "introduction",
        "Epistemic uncertainty is model uncertainty at the class boundary and OOD uncertainty far "
        "away.",
        _split,
    ),
    Claim("appendix H", "The flow's density ranks outliers reliably.", _outliers),
)
