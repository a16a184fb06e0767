"""What the paper says of images, checked against the records of the experiments on them."""

from __future__ import annotations

import pandas as pd
from reproduction.pages.claims import (
    BOTH,
    Claim,
    Results,
    above,
    all_of,
    below,
    listed,
)
from reproduction.pages.names import SHORT_SETS, baselines
from reproduction.pages.tables import spread

_BASELINES = baselines("mnist")
_SETS = {name: SHORT_SETS[name] for name in ("in", "usps", "emnist-balanced", "cifar10")}
_OOD = ("usps", "emnist-letters", "cifar10", "boundary")
_PARTS = ("epistemic", "aleatoric")
_LINES = ("0 to 5", "0 to 6")
_ANGLES = (0, 90, 180, 270)


def _of_sets(r: Results, part: str) -> str:
    return "; ".join(
        f"{part} of {m}: "
        + ", ".join(f"{name} {r.show('mnist', m, f'{part}/{key}')}" for key, name in _SETS.items())
        for m in r.measured("mnist", BOTH)
    )


def _intuition(r: Results) -> str:
    return "; ".join(_of_sets(r, part) for part in _PARTS) + "."


def _cifar_is_strangest(r: Results, variant: str) -> str:
    def of(part: str, name: str) -> pd.Series:
        return r.values("mnist", variant, f"{part}/{name}")

    others = ("usps", "emnist-balanced")
    return all_of(
        [above(of("epistemic", "cifar10"), of("epistemic", name)) for name in ("in", *others)]
        + [below(of("aleatoric", "cifar10"), of("aleatoric", name)) for name in others]
    )


def _emnist_is_most_ambiguous(r: Results, variant: str) -> str:
    own = {name: r.values("mnist", variant, f"aleatoric/{name}") for name in _SETS}
    emnist = own.pop("emnist-balanced")
    return all_of(above(emnist, other) for other in own.values())


def _apart(r: Results) -> str:
    methods = (*r.measured("mnist", BOTH), *_BASELINES)
    lines = (f"{n}: {listed(r, 'mnist', f'auroc/epistemic/{n}', methods)}" for n in _OOD)
    return f"AUROC of epistemic, MNIST test against {'; '.join(lines)}."


def _is_better_than_baselines(r: Results, variant: str) -> str:
    def area(method: str, name: str) -> pd.Series:
        return r.values("mnist", method, f"auroc/epistemic/{name}")

    return all_of(above(area(variant, n), area(m, n)) for n in _OOD for m in _BASELINES)


def _boundary(r: Results) -> str:
    methods = (*r.measured("mnist", BOTH), *_BASELINES)
    text = (
        f"{m}: {r.show('mnist', m, 'epistemic/in')}, {r.show('mnist', m, 'epistemic/boundary')}"
        for m in methods
    )
    return f"epistemic of test images and of the boundary. {'; '.join(text)}."


def _boundary_is_stranger(r: Results, variant: str) -> str:
    inside, edge = (r.values("mnist", variant, f"epistemic/{n}") for n in ("in", "boundary"))
    return above(edge, 2 * inside)


def _layer(r: Results) -> str:
    methods = ("NLM", "NLM, 50")
    areas = (f"{n}: {listed(r, 'mnist', f'auroc/epistemic/{n}', methods)}" for n in _OOD)
    return (
        f"NLM has 50-1024 hidden units. Accuracy: {listed(r, 'mnist', 'accuracy', methods)}; AUROC "
        f"of epistemic against {'; '.join(areas)}."
    )


def _is_no_better(r: Results, variant: str) -> str:
    def gain(path: str) -> pd.Series:
        return r.values("mnist", "NLM", path) - r.values("mnist", "NLM, 50", path)

    return all_of(
        [below(gain("accuracy"), 0.002)]
        + [below(gain(f"auroc/epistemic/{name}"), 0.01) for name in _OOD]
    )


def _noise(r: Results) -> str:
    text = (
        f"{part} of {m}: {r.show('mnist-noise', m, f'{part}/clean')} to "
        f"{r.show('mnist-noise', m, f'{part}/noisiest')}"
        for m in (*r.measured("mnist-noise", BOTH), "NLM")
        for part in _PARTS
    )
    return "; ".join(text) + "."


def _noise_is_noticed(r: Results, variant: str) -> str:
    def of(path: str, method: str = variant) -> pd.Series:
        return r.values("mnist-noise", method, path)

    return all_of(
        [
            above(of("epistemic/rank_correlation"), 0.9),
            above(of("epistemic/rise"), of("aleatoric/rise")),
            below(of("epistemic/rise", "NLM"), of("epistemic/rise") / 2),
        ]
    )


def _total_of_one(r: Results, method: str, angle: int) -> pd.Series:
    return r.values("mnist-rotations", method, f"epistemic/1/at {angle}") + r.values(
        "mnist-rotations", method, f"aleatoric/1/at {angle}"
    )


def _rotated_one(r: Results) -> str:
    text = (
        f"{m}: "
        + ", ".join(f"{a} degrees {spread(_total_of_one(r, m, a).to_numpy())}" for a in _ANGLES)
        for m in r.measured("mnist-rotations", BOTH)
    )
    return f"mean total uncertainty about a 1 at an angle. {'; '.join(text)}."


def _upright_is_certain(r: Results, variant: str) -> str:
    total = {angle: _total_of_one(r, variant, angle) for angle in _ANGLES}
    return all_of(below(total[a], total[b] / 2) for a in (0, 180) for b in (90, 270))


def _rotated_nine(r: Results) -> str:
    def told(m: str) -> str:
        at = ", ".join(
            f"{a} degrees {r.show('mnist-rotations', m, f'epistemic/9/at {a}')}"
            for a in (0, 90, 180)
        )
        share = r.show("mnist-rotations", m, "read as a 6 at 180/9")
        return f"{m}: share read as a 6 at 180 degrees {share}, mean epistemic at {at}"

    return "; ".join(map(told, r.measured("mnist-rotations", BOTH))) + "."


def _nine_is_six(r: Results, variant: str) -> str:
    def of(path: str) -> pd.Series:
        return r.values("mnist-rotations", variant, path)

    return all_of(
        [
            above(of("read as a 6 at 180/9"), 0.5),
            below(of("epistemic/9/at 180"), of("epistemic/9/at 90") / 2),
        ]
    )


def _morph(r: Results) -> str:
    text = (
        f"{part} of {m}, {line}: "
        f"{r.show('mnist-morph', m, f'{part}/{line}/ends')} at the ends, "
        f"{r.show('mnist-morph', m, f'{part}/{line}/largest between')} between"
        for m in r.measured("mnist-morph", BOTH)
        for line in _LINES
        for part in _PARTS
    )
    return "; ".join(text) + "."


def _peaks_between(r: Results, variant: str) -> str:
    return all_of(
        above(
            r.values("mnist-morph", variant, f"{part}/{line}/largest between"),
            2 * r.values("mnist-morph", variant, f"{part}/{line}/ends"),
        )
        for line in _LINES
        for part in _PARTS
    )


def _morph_total(r: Results) -> str:
    methods = (*r.measured("mnist-morph", BOTH), "NLM")
    text = (
        f"{line}: {listed(r, 'mnist-morph', f'total/{line}/largest between', methods)}"
        for line in _LINES
    )
    return f"largest total between the digits, {'; '.join(text)}."


def _nlm_is_surer(r: Results, variant: str) -> str:
    return all_of(
        below(
            r.values("mnist-morph", "NLM", f"total/{line}/largest between"),
            r.values("mnist-morph", variant, f"total/{line}/largest between") / 2,
        )
        for line in _LINES
    )


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
        lambda r: f"{_of_sets(r, 'aleatoric')}.",
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
        "BaCOUn tells images of other kinds from MNIST better than every baseline.",
        _apart,
        _is_better_than_baselines,
        "Our edge was settled after a look at USPS and EMNIST; see mnist.toml.",
    ),
    Claim(
        "appendix B",
        "An additional layer does not yield better results for NLM.",
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
        "The autoencoder's images are smoother than any training image, so our default takes all "
        "of them for unfamiliar, the ends of the line included.",
    ),
    Claim("appendix G", "NLM is over-confident between two digits.", _morph_total, _nlm_is_surer),
)
