"""What the paper says of images, checked against the records of the experiments on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pandas as pd
from reproduction.pages.claims import (
    BOTH,
    OURS,
    PAPER,
    Claim,
    Results,
    above,
    all_of,
    any_of,
    below,
    by_method,
    told,
)
from reproduction.pages.image_figures import (
    ALL_WRONG,
    AMBIGUOUS,
    BNN_WRONG,
    ON_BOUNDARY,
    chosen_images,
)
from reproduction.pages.names import SHORT_SETS, baselines
from reproduction.pages.tables import spread

_BASELINES = baselines("mnist")
_SETS = {name: SHORT_SETS[name] for name in ("in", "usps", "emnist-balanced", "cifar10")}
_OOD = ("usps", "emnist-letters", "cifar10", "boundary")
_PARTS = ("epistemic", "aleatoric")
_NLM = {PAPER: "NLM, paper", OURS: "NLM"}  # recipe against recipe, default against default
_BNNS = ("BNN", "BNN, dense")
_ANGLES = (0, 90, 180, 270)

Place = tuple[str, str]
"""An experiment and one of its methods."""

_SIZES = {"20,000 images": "mnist", "60,000 images": "mnist-full"}  # to train on
_AT_BOTH_SIZES: dict[str, Place] = {
    f"{method}, {size}": (experiment, method)
    for method in BOTH
    for size, experiment in _SIZES.items()
}
_BOTH_WEIGHED = "Both numbers of training images are weighed."


def _of_sets(r: Results, lead: str, rows: Mapping[str, Place], parts: Iterable[str]) -> str:
    """A row for each experiment and method, a column for each set."""
    keys = {name: key for key, name in _SETS.items()}

    def cell(row: str, name: str) -> str:
        experiment, method = rows[row]
        paths = (f"{part}/{keys[name]}" for part in parts)
        return " + ".join(r.show(experiment, method, path) for path in paths)

    return told(lead, "method", rows, keys, cell)


def _intuition(r: Results) -> str:
    lead = f"Epistemic + aleatoric uncertainty. {_BOTH_WEIGHED}"
    return _of_sets(r, lead, _AT_BOTH_SIZES, _PARTS)


def _aleatoric(r: Results) -> str:
    lead = f"Aleatoric uncertainty. {_BOTH_WEIGHED}"
    return _of_sets(r, lead, _AT_BOTH_SIZES, ("aleatoric",))


def _cifar_is_strangest(r: Results, variant: str) -> str:
    others = ("usps", "emnist-balanced")
    verdicts = []
    for experiment in _SIZES.values():
        epistemic, aleatoric = (
            {name: r.values(experiment, variant, f"{part}/{name}") for name in _SETS}
            for part in _PARTS
        )
        verdicts += [above(epistemic["cifar10"], epistemic[name]) for name in ("in", *others)]
        verdicts += [below(aleatoric["cifar10"], aleatoric[name]) for name in others]
    return all_of(verdicts)


def _emnist_is_most_ambiguous(r: Results, variant: str) -> str:
    verdicts = []
    for experiment in _SIZES.values():
        own = {name: r.values(experiment, variant, f"aleatoric/{name}") for name in _SETS}
        emnist = own.pop("emnist-balanced")
        verdicts += [above(emnist, other) for other in own.values()]
    return all_of(verdicts)


def _apart(r: Results) -> str:
    columns = {SHORT_SETS[name]: f"auroc/epistemic/{name}" for name in _OOD}
    lead = "AUROC of epistemic uncertainty, against MNIST's test images."
    return by_method(r, lead, "mnist", (*BOTH, *_BASELINES), columns)


def _is_better_than_baselines(r: Results, variant: str) -> str:
    def area(method: str, name: str) -> pd.Series:
        return r.values("mnist", method, f"auroc/epistemic/{name}")

    return all_of(above(area(variant, n), area(m, n)) for n in _OOD for m in _BASELINES)


def _boundary(r: Results) -> str:
    columns = {"test images": "epistemic/in", "boundary": "epistemic/boundary"}
    return by_method(r, "Epistemic uncertainty.", "mnist", (*BOTH, *_BASELINES), columns)


def _boundary_is_stranger(r: Results, variant: str) -> str:
    inside, edge = (r.values("mnist", variant, f"epistemic/{n}") for n in ("in", "boundary"))
    return above(edge, 2 * inside)


def _nlm_is_sure_of_it(r: Results, variant: str) -> str:
    edge = {m: r.values("mnist", m, "epistemic/boundary") for m in (variant, _NLM[variant])}
    return below(edge[_NLM[variant]], edge[variant] / 2)


def _kinds(r: Results) -> str:
    methods = ("MC-Dropout, paper", *_BNNS)
    rows = {method: ("mnist", method) for method in methods}
    return _of_sets(r, "Epistemic + aleatoric uncertainty.", rows, _PARTS)


def _one_kind_dominates(r: Results, variant: str) -> str:
    def dominates(method: str) -> str:
        parts = [
            tuple(r.values("mnist", method, f"{part}/{name}") for part in _PARTS)
            for name in _SETS
            if name != "in"
        ]
        return any_of(
            all_of(above(own[larger], 5 * own[1 - larger]) for own in parts) for larger in (0, 1)
        )

    return all_of(dominates(m) for m in ("MC-Dropout, paper", *_BNNS))


_LAYERS = ("NLM, paper", "MC-Dropout, paper")


def _layer(r: Results) -> str:
    methods = [f"{m}{more}" for m in _LAYERS for more in ("", ", 50-1024")]
    columns = {"accuracy": "accuracy"} | {SHORT_SETS[n]: f"auroc/epistemic/{n}" for n in _OOD}
    return by_method(
        r, "Accuracy, and AUROC of epistemic uncertainty by set.", "mnist", methods, columns
    )


def _is_no_better(r: Results, variant: str) -> str:
    def gain(method: str, path: str) -> pd.Series:
        return r.values("mnist", f"{method}, 50-1024", path) - r.values("mnist", method, path)

    return all_of(
        [below(gain(m, "accuracy"), 0.002) for m in _LAYERS]
        + [below(gain(m, f"auroc/epistemic/{name}"), 0.01) for m in _LAYERS for name in _OOD]
    )


def _noise(r: Results) -> str:
    columns = {
        f"{part}, {level}": f"{part}/{level}" for part in _PARTS for level in ("clean", "noisiest")
    }
    lead = "Means over test digits, clean and with noise of standard deviation 1."
    return by_method(r, lead, "mnist-noise", (*BOTH, *_NLM.values()), columns)


def _noise_is_noticed(r: Results, variant: str) -> str:
    def of(path: str, method: str = variant) -> pd.Series:
        return r.values("mnist-noise", method, path)

    return all_of(
        [
            above(of("epistemic/rank_correlation"), 0.9),
            above(of("epistemic/rise"), of("aleatoric/rise")),
            below(of("epistemic/rise", _NLM[variant]), of("epistemic/rise") / 2),
        ]
    )


def _total_of_one(r: Results, method: str, angle: int) -> pd.Series:
    return r.values("mnist-rotations", method, f"epistemic/1/at {angle}") + r.values(
        "mnist-rotations", method, f"aleatoric/1/at {angle}"
    )


def _rotated_one(r: Results) -> str:
    return told(
        "Mean total uncertainty about a 1, by angle in degrees.",
        "method",
        BOTH,
        map(str, _ANGLES),
        lambda m, angle: spread(_total_of_one(r, m, int(angle)).to_numpy()),
    )


def _upright_is_certain(r: Results, variant: str) -> str:
    total = {angle: _total_of_one(r, variant, angle) for angle in _ANGLES}
    return all_of(below(total[a], total[b] / 2) for a in (0, 180) for b in (90, 270))


def _rotated_nine(r: Results) -> str:
    columns = {"read as a 6 at 180": "read as a 6 at 180/9"}
    columns |= {f"epistemic at {angle}": f"epistemic/9/at {angle}" for angle in (0, 90, 180)}
    return by_method(r, "Angles in degrees.", "mnist-rotations", BOTH, columns)


def _nine_is_six(r: Results, variant: str) -> str:
    def of(path: str) -> pd.Series:
        return r.values("mnist-rotations", variant, path)

    return all_of(
        [
            above(of("read as a 6 at 180/9"), 0.5),
            below(of("epistemic/9/at 180"), of("epistemic/9/at 90") / 2),
        ]
    )


def _lines(r: Results, method: str) -> list[str]:
    """The lines between digits that a method was asked about."""
    records = [record for record in r.records["mnist-morph"] if record.method == method]
    if not records:
        raise KeyError(f"mnist-morph: no lines of {method}")
    return list(records[0].numbers.get("unsure", ()))


def _morph(r: Results) -> str:
    places = {"ends": "ends", "between": "largest between"}

    def cell(row: str, column: str) -> str:
        method, line = row.split(": ")
        part, place = column.split(", ")
        return r.show("mnist-morph", method, f"{part}/{line}/{places[place]}")

    rows = [f"{m}: {line}" for m in BOTH for line in _lines(r, m)]
    columns = [f"{part}, {place}" for part in _PARTS for place in places]
    lead = "The larger of the two ends, and the largest between them; whose autoencoder it is."
    return told(lead, "line", rows, columns, cell)


def _peaks_between(r: Results, variant: str) -> str:
    def of(path: str) -> pd.Series:
        return r.values("mnist-morph", variant, path)

    return all_of(
        above(of(f"{part}/{line}/largest between"), 2 * of(f"{part}/{line}/ends"))
        for line in _lines(r, variant)
        for part in _PARTS
    )


def _unsure(r: Results) -> str:
    lead = (
        "Share of a line on which the total uncertainty exceeds 0.325 nats, the entropy of 90 % "
        "against 10 %."
    )
    columns = {line: f"unsure/{line}" for line in _lines(r, PAPER)}
    return by_method(r, lead, "mnist-morph", (*BOTH, *_NLM.values()), columns)


def _nlm_is_surer(r: Results, variant: str) -> str:
    def share(method: str, line: str) -> pd.Series:
        return r.values("mnist-morph", method, f"unsure/{line}")

    return all_of(
        below(share(_NLM[variant], line), share(variant, line)) for line in _lines(r, variant)
    )


def _examples(
    title: str, part: str, methods: tuple[str, ...]
) -> tuple[Callable[[Results], str], Callable[[Results, str], str]]:
    """The numbers and the verdict about the images that a rule chooses, one or more for a seed.

    BaCOUn's uncertainty is to exceed that of each of the other methods.
    """

    def of(r: Results, method: str) -> pd.Series:
        """Mean over the chosen images, by seed; KeyError if a method was not asked."""
        found = {}
        everyone = baselines("mnist-examples") + BOTH
        for seed in sorted({record.seed for record in r.records["mnist-examples"]}):
            own = {m.method: m for m in r.records["mnist-examples"] if m.seed == seed}
            if not set(everyone) <= set(own):
                continue
            chosen = [e for e in chosen_images(own) if e[0].startswith(title)]
            values = [float(own[method].arrays[f"{part} {name}"][i]) for _, name, i in chosen]
            if values:
                found[seed] = sum(values) / len(values)
        if not found:
            raise KeyError(f"mnist-examples: not every method was asked about {title!r}")
        return pd.Series(found)

    def measured(r: Results) -> str:
        return told(
            "Images are chosen by a rule, for each seed anew.",
            "method",
            (*BOTH, *_NLM.values(), *methods),
            [part],
            lambda m, _: spread(of(r, m).to_numpy()),
        )

    def weigh(r: Results, variant: str) -> str:
        return all_of(above(of(r, variant), of(r, m)) for m in (_NLM[variant], *methods))

    return measured, weigh


IMAGE_CLAIMS = (
    Claim(
        "appendix F",
        "CIFAR gets the highest epistemic uncertainty and less aleatoric than USPS and EMNIST.",
        _intuition,
        _cifar_is_strangest,
    ),
    Claim(
        "section 5",
        "EMNIST gets the highest aleatoric uncertainty.",
        _aleatoric,
        _emnist_is_most_ambiguous,
    ),
    Claim(
        "appendix A",
        "Points on the boundary get a higher epistemic uncertainty than test images.",
        _boundary,
        _boundary_is_stranger,
    ),
    Claim(
        "appendix F",
        "NLM is over-confident on the boundary, where BaCOUn is unsure.",
        _boundary,
        _nlm_is_sure_of_it,
    ),
    Claim(
        "appendix F",
        "Of MC-Dropout's and a BNN's uncertainties one is predominant, the other negligible.",
        _kinds,
        _one_kind_dominates,
        "Weighed is whether the same one is more than five times the other on all three sets.",
        shared=True,
    ),
    Claim(
        "appendix F",
        "BaCOUn tells images of other kinds from MNIST better than every baseline.",
        _apart,
        _is_better_than_baselines,
        "Our edge was settled after a look at USPS and EMNIST; see mnist.toml.",
    ),
    Claim(
        "appendix B",
        "An additional layer does not yield better results for NLM and MC-Dropout.",
        _layer,
        _is_no_better,
        shared=True,
    ),
    Claim(
        "appendix G",
        "Under growing noise epistemic uncertainty rises, aleatoric does not; NLM does not notice.",
        _noise,
        _noise_is_noticed,
    ),
    Claim(
        "appendix G",
        "A turned 1 is certain at 0 and 180 degrees, not between.",
        _rotated_one,
        _upright_is_certain,
    ),
    Claim(
        "appendix G",
        "A 9 upside down is read as a 6 with low uncertainty.",
        _rotated_nine,
        _nine_is_six,
    ),
    Claim(
        "appendix G",
        "Both uncertainties peak between two digits.",
        _morph,
        _peaks_between,
    ),
    Claim("appendix G", "NLM is over-confident between two digits.", _unsure, _nlm_is_surer),
    Claim(
        "appendix G",
        "Of a test digit that a BNN gets wrong BaCOUn has a higher epistemic uncertainty than NLM "
        "and BNN.",
        *_examples(BNN_WRONG, "epistemic", _BNNS),
    ),
    Claim(
        "appendix G",
        "Of a USPS digit that all methods get wrong BaCOUn has a higher epistemic uncertainty than "
        "NLM and BNN.",
        *_examples(ALL_WRONG, "epistemic", _BNNS),
    ),
    Claim(
        "appendix G",
        "Of a USPS digit that might or might not be a 6 BaCOUn is less sure than the baselines.",
        *_examples(AMBIGUOUS, "total", (*_BNNS, "MC-Dropout, paper")),
    ),
    Claim(
        "appendix G",
        "Of generated images on the boundary BaCOUn is less sure than NLM and BNN.",
        *_examples(ON_BOUNDARY, "total", _BNNS),
    ),
)
