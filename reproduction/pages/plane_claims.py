"""What the paper says of the Gaussian mixture and the moons, checked against the records."""

from __future__ import annotations

from reproduction.pages.claims import Claim, Results, listed, verdict
from reproduction.pages.names import PAPER_BASELINES
from reproduction.pages.tables import number, spread

_ARCHITECTURES = ("2 x 64", "4 x 64", "64-64-64-1024", "4 x 512")


def _pathology(r: Results) -> tuple[str, str]:
    lines, good = [], []
    for classifier in ("logistic", "naive bayes"):
        nlm = [r.mean("pathology", f"NLM, {a}", f"{classifier}/far") for a in _ARCHITECTURES]
        ours = [r.mean("pathology", f"BaCOUn, {a}", f"{classifier}/far") for a in _ARCHITECTURES]
        lines.append(
            f"{classifier}: far points are told from data with a balanced accuracy of "
            f"{min(nlm):.2f} to {max(nlm):.2f} from NLM features and {min(ours):.2f} to "
            f"{max(ours):.2f} from BaCOUn features, over the four architectures"
        )
        good += [ours[i] > 0.9 and ours[i] > nlm[i] + 0.05 for i in range(len(nlm))]
    return "; ".join(lines) + ".", verdict(*good)


def _irrespective(r: Results) -> tuple[str, str]:
    nlm = {a: r.mean("architectures", f"NLM, {a}", "epistemic/out") for a in _ARCHITECTURES}
    ours = {a: r.mean("architectures", f"BaCOUn, {a}", "epistemic/out") for a in _ARCHITECTURES}
    text = "epistemic Out of NLM / BaCOUn at " + "; ".join(
        f"{a}: {number(nlm[a])} / {number(ours[a])}" for a in _ARCHITECTURES
    )
    return text + ".", verdict(*(nlm[a] < ours[a] / 5 for a in _ARCHITECTURES))


def _same_architecture(r: Results) -> tuple[str, str]:
    plain = {
        a: r.mean("architectures", f"BaCOUn, no doubt, {a}", "epistemic/out")
        for a in _ARCHITECTURES
    }
    nlm = {a: r.mean("architectures", f"NLM, {a}", "epistemic/out") for a in _ARCHITECTURES}
    text = "epistemic Out of BaCOUn without doubt, as in the paper: " + "; ".join(
        f"{a}: {number(plain[a])}" for a in _ARCHITECTURES
    )
    return text + ".", verdict(*(plain[a] > 3 * nlm[a] for a in _ARCHITECTURES))


def _gmm_accuracy(r: Results) -> tuple[str, str]:
    methods = ("BaCOUn", "BaCOUn, paper", "NLM", "BNN", "MC-Dropout", "GP")
    means = [r.mean("gmm", m, "accuracy") for m in methods]
    text = f"accuracy on 30,000 points: {listed(r, 'gmm', 'accuracy', methods)}."
    return text, verdict(max(means) - min(means) <= 0.02)


def _gmm_far(r: Results) -> tuple[str, str]:
    ours = r.mean("gmm", "BaCOUn, paper", "epistemic/out")
    text = (
        f"epistemic Out: BaCOUn, paper {r.show('gmm', 'BaCOUn, paper', 'epistemic/out')}; BaCOUn "
        f"{r.show('gmm', 'BaCOUn', 'epistemic/out')}; GP {r.show('gmm', 'GP', 'epistemic/out')}; "
        f"{listed(r, 'gmm', 'epistemic/out', PAPER_BASELINES)}."
    )
    far_below = [r.mean("gmm", m, "epistemic/out") < ours / 5 for m in PAPER_BASELINES]
    return text, verdict(r.mean("gmm", "GP", "epistemic/out") > ours / 2, *far_below)


def _gmm_overlap(r: Results) -> tuple[str, str]:
    parts = {
        region: r.mean("gmm", "BaCOUn", f"aleatoric/{region}") for region in ("in", "out", "middle")
    }
    text = (
        f"aleatoric of BaCOUn: Middle {r.show('gmm', 'BaCOUn', 'aleatoric/middle')}, In "
        f"{r.show('gmm', 'BaCOUn', 'aleatoric/in')}, Out "
        f"{r.show('gmm', 'BaCOUn', 'aleatoric/out')}; epistemic Middle "
        f"{r.show('gmm', 'BaCOUn', 'epistemic/middle')}."
    )
    return text, verdict(parts["middle"] > 2 * max(parts["in"], parts["out"]))


def _like_gp(r: Results) -> tuple[str, str]:
    methods = ("BaCOUn", "BaCOUn, paper", *PAPER_BASELINES)
    text, good = [], []
    for experiment in ("gmm", "moons"):
        own = {m: r.rank_correlations(experiment, m, "GP") for m in methods}
        text.append(
            f"{experiment}: " + ", ".join(f"{m} {spread(values)}" for m, values in own.items())
        )
        best = max(float(own[m].mean()) for m in PAPER_BASELINES)
        good += [float(own[m].mean()) > best for m in ("BaCOUn", "BaCOUn, paper")]
    return "rank correlation of the maps of total uncertainty with the GP's. " + (
        "; ".join(text) + "."
    ), verdict(*good)


def _some_directions(r: Results) -> tuple[str, str]:
    text = "smallest epistemic over 200 directions at three radii of the data: " + "; ".join(
        f"{e}: {listed(r, e, 'rays/smallest_far', ('BNN', 'BaCOUn'))}" for e in ("gmm", "moons")
    )
    bnn = [r.mean(e, "BNN", "rays/smallest_far") for e in ("gmm", "moons")]
    ours = [r.mean(e, "BaCOUn", "rays/smallest_far") for e in ("gmm", "moons")]
    return text + ".", verdict(*(b < o / 5 for b, o in zip(bnn, ours, strict=True)))


def _increasing(r: Results) -> tuple[str, str]:
    path = "rays/rank_correlation"
    shown = ("BaCOUn", "BaCOUn, paper", *PAPER_BASELINES, "GP")
    text = (
        f"rank correlation of distance and mean epistemic: {listed(r, 'moons', path, shown)}; "
        f"mean over rays at three radii: {listed(r, 'moons', 'rays/mean_far', shown)}."
    )
    rises = {m: r.mean("moons", m, path) >= 0.9 for m in ("BaCOUn", *PAPER_BASELINES)}
    high = {m: r.mean("moons", m, "rays/mean_far") > 0.2 for m in ("BaCOUn", *PAPER_BASELINES)}
    only = [not (rises[m] and high[m]) for m in PAPER_BASELINES]
    return text, verdict(rises["BaCOUn"] and high["BaCOUn"], *only)


def _wrong_kind(r: Results) -> tuple[str, str]:
    methods = ("MC-Dropout", "NLM", "BaCOUn")
    text = (
        f"aleatoric between the moons: {listed(r, 'moons', 'aleatoric/between', methods)}; "
        f"epistemic there: {listed(r, 'moons', 'epistemic/between', methods)}."
    )
    good = [
        r.mean("moons", m, "aleatoric/between") > r.mean("moons", m, "epistemic/between")
        for m in ("MC-Dropout", "NLM")
    ]
    ours = r.mean("moons", "BaCOUn", "epistemic/between")
    return text, verdict(*good, ours > r.mean("moons", "BaCOUn", "aleatoric/between"))


PLANE_CLAIMS = (
    Claim(
        "section 2 and appendix E",
        "Features learned to classify cannot tell data from what lies beyond it; features that "
        "also learned the boundary can.",
        _pathology,
    ),
    Claim(
        "introduction",
        "NLM gives far points no high epistemic uncertainty, whichever architecture is chosen.",
        _irrespective,
    ),
    Claim(
        "section 2",
        "With identical architectures BaCOUn's training captures OOD uncertainty where the "
        "traditional one does not.",
        _same_architecture,
    ),
    Claim("GMM table", "All methods are about equally accurate.", _gmm_accuracy),
    Claim(
        "GMM table",
        "Only the Gaussian process and BaCOUn are unsure far from the data; BNN, NLM and "
        "MC-Dropout fail dramatically.",
        _gmm_far,
    ),
    Claim("figure 2", "Aleatoric uncertainty is high where classes overlap.", _gmm_overlap),
    Claim("introduction", "Uncertainty is comparable with that of a Gaussian process.", _like_gp),
    Claim(
        "appendix G", "A BNN underestimates OOD uncertainty in some directions.", _some_directions
    ),
    Claim(
        "appendix G",
        "On the moons BaCOUn is the only model whose epistemic uncertainty grows with the "
        "distance from the data.",
        _increasing,
    ),
    Claim(
        "appendix G",
        "MC-Dropout and NLM have high aleatoric uncertainty where there is no data and "
        "uncertainty should be epistemic.",
        _wrong_kind,
    ),
)
