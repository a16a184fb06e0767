"""What the paper says of the Gaussian mixture and the moons, checked against the records."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from reproduction.pages.claims import (
    BOTH,
    Claim,
    Results,
    above,
    all_of,
    any_of,
    below,
    by_method,
    negated,
    told,
)
from reproduction.pages.names import PAPER_BASELINES
from reproduction.pages.tables import spread

_ARCHITECTURES = ("2 x 64", "4 x 64", "64-64-64-1024", "4 x 512")


def _by_architecture(
    r: Results, lead: str, experiment: str, path: str, baselines: tuple[str, ...] = ("NLM",)
) -> str:
    return told(
        lead,
        "hidden units",
        _ARCHITECTURES,
        (*baselines, *BOTH),
        lambda each, m: r.show(experiment, f"{m}, {each}", path),
    )


def _pathology(r: Results) -> str:
    lead = (
        "Balanced accuracy of naive Bayes, from the features, on new points of the shell against "
        "test points."
    )
    return _by_architecture(r, lead, "pathology", "naive bayes/edge")


def _tells_apart(r: Results, variant: str) -> str:
    def accuracy(method: str, each: str) -> pd.Series:
        return r.values("pathology", f"{method}, {each}", "naive bayes/edge")

    return all_of(above(accuracy(variant, a), accuracy("NLM", a)) for a in _ARCHITECTURES)


def _out_of_nlm(r: Results) -> str:
    return _by_architecture(r, "Epistemic Out.", "architectures", "epistemic/out")


def _out_of_baselines(r: Results) -> str:
    lead = "Epistemic Out. NLM is weighed; the other baselines are shown beside it."
    return _by_architecture(r, lead, "architectures", "epistemic/out", PAPER_BASELINES)


def _is_times_nlm(factor: float) -> Callable[[Results, str], str]:
    def weigh(r: Results, variant: str) -> str:
        def out(method: str, each: str) -> pd.Series:
            return r.values("architectures", f"{method}, {each}", "epistemic/out")

        return all_of(above(out(variant, a), factor * out("NLM", a)) for a in _ARCHITECTURES)

    return weigh


def _accuracies(r: Results) -> str:
    methods = (*BOTH, *PAPER_BASELINES, "GP")
    return by_method(r, "On 30,000 points.", "gmm", methods, {"accuracy": "accuracy"})


def _is_as_accurate(r: Results, variant: str) -> str:
    own = r.values("gmm", variant, "accuracy")
    others = [r.values("gmm", m, "accuracy") for m in (*PAPER_BASELINES, "GP")]
    return all_of(below((own - other).abs(), 0.02) for other in others)


def _far(r: Results) -> str:
    methods = (*BOTH, "GP", *PAPER_BASELINES, "BNN, 2 x 64")
    columns = {"epistemic Out": "epistemic/out", "ELBO still gains": "elbo_gain"}
    return by_method(
        r, "The gain is over the last fifth of training, in nats a row.", "gmm", methods, columns
    )


def _only_gp_and_ours(r: Results, variant: str) -> str:
    own = r.values("gmm", variant, "epistemic/out")
    weighed = (*PAPER_BASELINES, "BNN, 2 x 64")  # the one BNN whose ELBO settles is one of them
    fail = [below(r.values("gmm", m, "epistemic/out"), own / 5) for m in weighed]
    return all_of([above(r.values("gmm", "GP", "epistemic/out"), own / 3), *fail])


def _overlap(r: Results) -> str:
    columns = {name: f"aleatoric/{name}" for name in _GMM_REGIONS}
    return by_method(r, "Aleatoric uncertainty.", "gmm", BOTH, columns)


_GMM_REGIONS = ("middle", "in", "out")


def _is_high_in_the_middle(r: Results, variant: str) -> str:
    middle, inside, out = (r.values("gmm", variant, f"aleatoric/{k}") for k in _GMM_REGIONS)
    return all_of(above(middle, other) for other in (inside, out))


def _like_gp(r: Results) -> str:
    return told(
        "Rank correlation of maps of total uncertainty with the GP's.",
        "method",
        (*BOTH, *PAPER_BASELINES),
        ("gmm", "moons"),
        lambda m, experiment: spread(r.rank_correlations(experiment, m, "GP").to_numpy()),
    )


def _is_more_like_gp(r: Results, variant: str) -> str:
    return all_of(
        above(r.rank_correlations(e, variant, "GP"), r.rank_correlations(e, m, "GP"))
        for e in ("gmm", "moons")
        for m in PAPER_BASELINES
    )


def _directions(r: Results) -> str:
    return told(
        "Smallest epistemic uncertainty of 200 directions, at three radii of the data.",
        "method",
        ("BNN", *BOTH),
        ("gmm", "moons"),
        lambda m, experiment: r.show(experiment, m, "rays/smallest_far"),
    )


def _bnn_is_low_somewhere(r: Results, variant: str) -> str:
    return all_of(
        below(
            r.values(e, "BNN", "rays/smallest_far"),
            r.values(e, variant, "rays/smallest_far") / 5,
        )
        for e in ("gmm", "moons")
    )


def _growth(r: Results) -> str:
    lead = (
        "Rank correlation of distance and mean epistemic uncertainty, and its mean at three radii."
    )
    columns = {"rank correlation": "rays/rank_correlation", "mean far": "rays/mean_far"}
    return by_method(r, lead, "moons", (*BOTH, *PAPER_BASELINES, "GP"), columns)


def _only_ours_grows(r: Results, variant: str) -> str:
    def grows(method: str) -> str:
        rises = above(r.values("moons", method, "rays/rank_correlation"), 0.5)
        return all_of([rises, above(r.values("moons", method, "rays/mean_far"), 0.2)])

    return all_of([grows(variant), negated(any_of(grows(m) for m in PAPER_BASELINES))])


def _between(r: Results) -> str:
    columns = {part: f"{part}/between" for part in ("aleatoric", "epistemic")}
    return by_method(r, "Between the moons.", "moons", ("MC-Dropout", "NLM", *BOTH), columns)


def _is_the_wrong_kind(r: Results, variant: str) -> str:
    def parts(method: str) -> tuple[pd.Series, pd.Series]:
        aleatoric, epistemic = (
            r.values("moons", method, f"{part}/between") for part in ("aleatoric", "epistemic")
        )
        return aleatoric, epistemic

    return all_of(above(*parts(method)) for method in ("MC-Dropout", "NLM"))


PLANE_CLAIMS = (
    Claim(
        "section 2 and appendix E",
        "Features learned to classify cannot tell data from the boundary; features that also "
        "learned the boundary can.",
        _pathology,
        _tells_apart,
        '"Cannot" is too strong in the plane, where features of any network differ a little '
        "between the two; weighed is whether features that learned the boundary are better.",
    ),
    Claim(
        "introduction",
        "NLM gives far points no high epistemic uncertainty, whichever architecture is chosen.",
        _out_of_nlm,
        _is_times_nlm(5),
    ),
    Claim(
        "section 2",
        "With identical architectures BaCOUn's training captures OOD uncertainty where the "
        "traditional one does not.",
        _out_of_baselines,
        _is_times_nlm(3),
    ),
    Claim("GMM table", "All methods are about equally accurate.", _accuracies, _is_as_accurate),
    Claim(
        "GMM table",
        "Only the Gaussian process and BaCOUn are unsure far from the data; BNN, NLM and "
        "MC-Dropout fail dramatically.",
        _far,
        _only_gp_and_ours,
        "Both BNNs are weighed: the paper's 4 x 512, whose ELBO has not settled, and 2 x 64, whose "
        "ELBO has, and of which some seeds are unsure there.",
    ),
    Claim(
        "figure 2",
        "Aleatoric uncertainty is high where classes overlap.",
        _overlap,
        _is_high_in_the_middle,
    ),
    Claim(
        "introduction",
        "Uncertainty is comparable with that of a Gaussian process.",
        _like_gp,
        _is_more_like_gp,
        "Weighed is whether BaCOUn's map is closer to the GP's than that of each baseline.",
    ),
    Claim(
        "appendix G",
        "A BNN underestimates OOD uncertainty in some directions.",
        _directions,
        _bnn_is_low_somewhere,
    ),
    Claim(
        "appendix G",
        "On the moons BaCOUn is the only model whose epistemic uncertainty grows with the "
        "distance from the data.",
        _growth,
        _only_ours_grows,
    ),
    Claim(
        "appendix G",
        "MC-Dropout and NLM have high aleatoric uncertainty where there is no data and "
        "uncertainty should be epistemic.",
        _between,
        _is_the_wrong_kind,
        shared=True,
    ),
)
