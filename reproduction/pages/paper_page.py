"""The paper, claim by claim: what it says, what the records say, and whether it holds.

Every number on the page is taken from a record, and every verdict follows from a rule stated here,
so that new records bring a new page.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reproduction.pages.claims import OPEN, Claim, Results, listed, verdict
from reproduction.pages.figures import figure_names
from reproduction.pages.image_claims import IMAGE_CLAIMS
from reproduction.pages.tables import markdown_table, number, spread

from reproduction import Record, read_experiment

_BASELINES = ("NLM", "BNN", "MC-Dropout")
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
        f"{listed(r, 'gmm', 'epistemic/out', _BASELINES)}."
    )
    far_below = [r.mean("gmm", m, "epistemic/out") < ours / 5 for m in _BASELINES]
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
    methods = ("BaCOUn", "BaCOUn, paper", *_BASELINES)
    text, good = [], []
    for experiment in ("gmm", "moons"):
        own = {m: r.likeness(experiment, m, "GP") for m in methods}
        text.append(
            f"{experiment}: " + ", ".join(f"{m} {spread(values)}" for m, values in own.items())
        )
        best = max(float(own[m].mean()) for m in _BASELINES)
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
    shown = ("BaCOUn", "BaCOUn, paper", *_BASELINES, "GP")
    text = (
        f"rank correlation of distance and mean epistemic: {listed(r, 'moons', path, shown)}; "
        f"mean over rays at three radii: {listed(r, 'moons', 'rays/mean_far', shown)}."
    )
    rises = {m: r.mean("moons", m, path) >= 0.9 for m in ("BaCOUn", *_BASELINES)}
    high = {m: r.mean("moons", m, "rays/mean_far") > 0.2 for m in ("BaCOUn", *_BASELINES)}
    only = [not (rises[m] and high[m]) for m in _BASELINES]
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


def _wine_auc(r: Results) -> tuple[str, str]:
    methods = ("BaCOUn", "BaCOUn, paper", *_BASELINES, "GP", "Deep ensemble")
    means = {m: r.mean("wine", m, "auc") for m in methods}
    best = max(means, key=lambda m: means[m])
    text = f"AUC on classes 5 against 7: {listed(r, 'wine', 'auc', methods)}. Best: {best}."
    return text, verdict(means["BaCOUn, paper"] >= max(means[m] for m in _BASELINES))


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


CLAIMS = (
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
    *IMAGE_CLAIMS,
)


def write_page(folder: Path, page: Path) -> None:
    """Write the page from the records in `folder`."""
    page.write_text(page_text(Results(folder), folder, page))


def page_text(results: Results, folder: Path, page: Path) -> str:
    """The page as Markdown."""
    lines = [_OPENING]
    weighed = [(claim, *_weigh(claim, results)) for claim in CLAIMS]
    lines += ["| claim | where | verdict |", "|---|---|---|"]
    lines += [f"| {claim.says} | {claim.where} | **{said}** |" for claim, _, said in weighed]
    for claim, measured, said in weighed:
        lines += ["", f"### {claim.says}", "", f"*{claim.where}.* **{said.capitalize()}.** "]
        lines[-1] += measured[:1].upper() + measured[1:]
        if claim.remark:
            lines += ["", claim.remark]
    lines += ["", "## Tables", ""]
    for name, records in results.records.items():
        if records:
            lines += _table_of(name, records, folder, page)
    return "\n".join(lines).rstrip() + "\n"


def _weigh(claim: Claim, results: Results) -> tuple[str, str]:
    try:
        return claim.weigh(results)
    except KeyError as missing:
        return f"not measured yet ({missing.args[0]}).", OPEN


def _table_of(name: str, records: list[Record], folder: Path, page: Path) -> list[str]:
    experiment = read_experiment(name)
    drawn = [folder / "figures" / f"{name}-{figure}.png" for figure in figure_names(experiment)]
    text = [f"### {experiment.title}", "", f"`python -m reproduction {name}`", ""]
    text += [markdown_table(experiment, records)]
    for figure in filter(Path.exists, drawn):
        text += [f"![{figure.stem}]({_relative(figure, page.parent)})", ""]
    return text


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


_OPENING = """# The paper, claim by claim

What "BaCOUn: Bayesian Classifiers with Out-of-Distribution Uncertainty" says, what we measured, and
whether it holds. This page is written by `python -m reproduction all --page docs/paper.md` from the
records in `results/`: each number is a mean ± standard deviation over seeds, each verdict follows
from a rule in `reproduction/pages/paper_page.py`. "BaCOUn" is the library's default, with doubt;
"BaCOUn, paper" are the paper's own settings. A baseline that wins is shown as winning.
"""
