"""Doubt: how unusual a point is, the probability that it is out-of-distribution, and what follows.

Several views say how unusual a point is: densities, what principal components leave out, and how
much the weights disagree. Each is turned into evidence, in nats, by its distribution on training
points that it was not fitted to, and the evidence adds up. With p the share of training points that
are at least as unusual as x,

    surprise = -log p,    rows like this one = N p,

and the probability of being OOD follows by Bayes' rule: on training points the surprise has the
density exp(-e), on OOD points a broad one. The prediction is mixed with the uniform one by a share
kappa that grows slowly, because the classes of unusual points are still worth a guess:

    mean = (1 - kappa) E_w p_w + kappa / K.

The entropy of the mean, the total uncertainty, has three parts. With q the OOD probability (or
kappa, if that is larger), and r = n^2 / (n^2 + 5^2) for n rows like this one, because about five
are needed to tell noise from ignorance,

    aleatoric = (1 - q) r E_w H[p_w],
    model     = (1 - q) H[E_w p_w] - aleatoric,
    ood       = total - (1 - q) H[E_w p_w].
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Self

import torch
from torch import Tensor

LARGEST_ODDS = 1e9  # keeps enough of a prediction that its argmax is not lost to rounding
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LOGIT_95 = math.log(19)  # of a standard logistic distribution, the 95 % quantile
# All settings below were chosen on development data: docs/doubt.md says which.
ELBOW = 0.75  # between the median, 0, and the 95 % quantile, 1: where a score becomes evidence
WEIGHT_BELOW = 0.5  # of evidence in the lower tail
_WEIGHTS = {"density": 0.5}  # of a view, if not 1: flows extrapolate worse than Gaussians
_BESIDE = ("residual", "length", "categories")  # views that count only beyond their quantiles
_WITH_TIES = ("length", "categories")  # views of which many points may have the same score
_TWO_SIDED = ("residual",)  # views in which a low score is unusual too: an image without detail
_OUTLIER = 20  # times the median excess; more is drawn in to this
_PSEUDO_ROWS = 5  # with which the tail of a view begins
_HEAVIEST, _HEAVIEST_SUM = 0.3, 0.1  # shapes of tails: heavier ones would hide far points
_NOISE = 2.0  # by which the shape of a view's tail is shrunk: by chance alone it hides far points
ENOUGH_ROWS = 5.0  # like this one, to tell noise from ignorance
OOD_SCALE = 5.0  # of the surprise of OOD points, whose density is (1 + e / scale)^-2 / scale
_OPTIMISM = 1.0  # weights disagree about new points up to e times as much as about learned ones
_AGREEMENT, _MANY_ROWS = 1e-3, 100_000  # nats; with more rows it falls, as disagreement does
_ROUNDING = 1e-6  # of a disagreement in single precision
LARGEST_SCORE = 1e9
_GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are evenly spread


@dataclass(frozen=True)
class Tail:
    """The distribution of a score on points that it was not fitted to.

    Up to the 95 % quantile it is taken as logistic, beyond as generalized Pareto. Scores are
    standardized: 0 at the median, 1 at the 95 % quantile.
    """

    median: float
    spread: float  # distance from the median to the 95 % quantile
    shape: float  # of the excess over 1; above 0
    scale: float
    below: "Tail | None" = None  # the same of minus the score, if a low score is unusual too

    @classmethod
    def of(
        cls,
        scores: Tensor,
        *,
        smallest: float = 1e-6,
        two_sided: bool = False,
        heaviest: float = _HEAVIEST,
        noise: float = _NOISE,
    ) -> Self:
        """The tail of scores (n,), with spreads of at least `smallest`.

        Its shape is at most `heaviest`, and exponential up to `noise` units of chance.
        """
        finite = _finite(scores)
        median, high = finite.quantile(finite.new_tensor([0.5, 0.95])).tolist()
        spread = max(high - median, smallest)
        standard = (finite - median) / spread
        below = cls.of(-scores, smallest=smallest) if two_sided else None
        return cls(median, spread, *_pareto(standard[standard > 1] - 1, heaviest, noise), below)

    def standardized(self, scores: Tensor) -> Tensor:
        """Scores (N,), scaled to 0 at the median and 1 at the 95 % quantile."""
        return (_finite(scores) - self.median) / self.spread

    def evidence(self, scores: Tensor, elbow: float = ELBOW) -> Tensor:
        """Evidence (N,) that scores (N,) are unusual, in nats: 0 for low ones, then growing.

        With an `elbow` of 0, it is minus the log probability of a score at least as high; if it is
        infinite, the evidence begins at the 95 % quantile.
        """
        standard = self.standardized(scores)
        usual = (LOGIT_95 * (standard.clamp(max=1) - elbow)).exp().log1p()  # at most log 20
        above = usual + self._excess(standard)
        if self.below is None:
            return above
        return above + WEIGHT_BELOW * self.below._excess(self.below.standardized(-scores))

    def _excess(self, standard: Tensor) -> Tensor:
        """Minus the log probability (N,) of at least this excess over the 95 % quantile."""
        return torch.log1p(self.shape / self.scale * (standard - 1).clamp(min=0)) / self.shape

    def distance(self, scores: Tensor) -> Tensor:
        """How far (N,) scores are from the data: standardized, and squeezed beyond 1.

        The heavier the tail, the less it says that a score is high.
        """
        standard = self.standardized(scores)
        return standard.clamp(0, 1) + self.scale * self._excess(standard)

    def beyond(self, scores: Tensor) -> Tensor:
        """How far (N,) scores are above the 95 % quantile or, at half weight, below the 5 % one."""
        above = (self.standardized(scores) - 1).clamp(min=0)
        if self.below is None:
            return above
        return torch.maximum(above, WEIGHT_BELOW * (self.below.standardized(-scores) - 1))


def _finite(scores: Tensor) -> Tensor:
    return scores.double().clamp(-LARGEST_SCORE, LARGEST_SCORE)  # a flow may overflow


def _pareto(excess: Tensor, heaviest: float, noise: float) -> tuple[float, float]:
    """Shape and scale of a generalized Pareto distribution, by probability-weighted moments.

    A few pseudo-rows of a logistic tail come first, and outliers are drawn in. The variance of the
    estimated shape is about 1 / n; the estimate is shrunk to 0 as James and Stein do, by `noise`
    times that. At least, the shape is what not knowing the scale amounts to.
    """
    middles = (torch.arange(_PSEUDO_ROWS, dtype=excess.dtype) + 0.5) / _PSEUDO_ROWS
    ordered = torch.cat([excess, -middles.log().to(excess.device) / LOGIT_95]).sort().values
    ordered = ordered.clamp(max=_OUTLIER * float(ordered.median()))
    ranks = torch.arange(1, len(ordered) + 1, dtype=ordered.dtype, device=ordered.device)
    share_above = 1 - (ranks - 0.35) / len(ordered)
    first, second = float(ordered.mean()), float((share_above * ordered).mean())
    shape = 2 - first / max(first - 2 * second, 1e-9)
    if shape > 0:
        shape *= max(0.0, 1 - noise / (len(ordered) * shape**2))
    shape = max(min(shape, heaviest), 1 / len(ordered))
    return shape, 2 * (2 - shape) * second


@dataclass(frozen=True)
class Survival:
    """The share of training points with at least as much evidence."""

    quantiles: tuple[float, ...]  # of the evidence, at `LEVELS`; between, the log share is linear
    tail: Tail  # beyond the 95 % quantile, which is the last one

    @classmethod
    def of(cls, evidence: Tensor) -> Self:
        """From the evidence (n,) of training points."""
        values = evidence.quantile(evidence.new_tensor(LEVELS)).tolist()
        apart = accumulate(values, lambda last, value: max(value, last + 1e-6))
        return cls(tuple(apart), Tail.of(evidence, heaviest=_HEAVIEST_SUM, noise=0))

    def surprise(self, evidence: Tensor) -> Tensor:
        """Minus the log share (N,)."""
        logs = [-math.log(1 - level) for level in LEVELS]
        usual = torch.full_like(evidence, logs[0])
        steps = zip(pairwise(self.quantiles), pairwise(logs), strict=True)
        for (left, right), (low, up) in steps:
            slope = (up - low) / (right - left)
            usual = usual + slope * (evidence - left).clamp(0, right - left)
        return usual + self.tail.evidence(evidence, elbow=math.inf)


@dataclass(frozen=True)
class Doubt:
    """Maps how unusual points are to probabilities of being out-of-distribution."""

    ood_prior: float  # prior probability that a scored point is OOD
    n_rows: int  # number N of training rows
    views: dict[str, Tail]  # by the name of the view
    disagreement: Tail  # of the log of the epistemic uncertainty due to the weights alone
    agreement: float  # nats that are added to it first; less is no disagreement
    total: Survival  # of the summed evidence
    power: float = 2.0  # how steeply the hedge grows with the distance from the data

    @classmethod
    def learn(
        cls,
        views: Mapping[str, Tensor],
        epistemic: Tensor,
        *,
        ood_prior: float,
        n_rows: int,
        are_new: bool = False,
    ) -> Self:
        """Learn from training points, a sample of the `n_rows` that the model was fitted to.

        The `views` (n,) say how unusual the points would look if they were new, and `epistemic`
        (n,) is the uncertainty due to the weights alone, in nats. It may be e times as large at new
        points, unless the features were not fitted to these, which then `are_new`. A scored point
        is OOD with the prior probability `ood_prior`.
        """
        agreement = max(_ROUNDING, _AGREEMENT * min(1.0, _MANY_ROWS / n_rows))
        tails = {
            name: Tail.of(
                scores, smallest=1.0 if name in _WITH_TIES else 1e-6, two_sided=name in _TWO_SIDED
            )
            for name, scores in views.items()
        }
        learned = Tail.of((epistemic.double() + agreement).log())
        draft = cls(ood_prior, n_rows, tails, learned, agreement, total=Survival((), learned))
        doubt = replace(draft, total=Survival.of(draft.evidence(views, epistemic)))
        return doubt if are_new else doubt.with_disagreement(epistemic)

    def with_disagreement(self, epistemic: Tensor) -> Self:
        """The same after the weights have been learned anew; `epistemic` as in `learn`.

        They know these points: the tail of the disagreement about new ones is wider.
        """
        learned = Tail.of((epistemic.double() + self.agreement).log())
        spread = learned.spread + _OPTIMISM
        return replace(
            self, disagreement=replace(learned, spread=spread, shape=1e-3, scale=1 / LOGIT_95)
        )

    @property
    def weights(self) -> dict[str, tuple[float, bool]]:
        """Weight of each view, and whether it counts only beyond its quantiles."""
        beside = _BESIDE if self.views.keys() - set(_BESIDE) else ()
        return {name: (_WEIGHTS.get(name, 1.0), name in beside) for name in self.views}

    def evidence(self, views: Mapping[str, Tensor], epistemic: Tensor) -> Tensor:
        """Summed evidence (N,) of being unusual, in nats; arguments as in `learn`."""
        summed = self.disagreement.evidence((epistemic.double() + self.agreement).log())
        for name, (weight, beside) in self.weights.items():
            elbow = math.inf if beside else ELBOW
            summed = summed + weight * self.views[name].evidence(views[name], elbow)
        return summed

    def surprise(self, views: Mapping[str, Tensor], epistemic: Tensor) -> Tensor:
        """Minus the log share (N,) of training points that are at least as unusual."""
        return self.total.surprise(self.evidence(views, epistemic))

    def rows_like_this(self, surprise: Tensor) -> Tensor:
        """Expected number (N,) of training rows that are at least as unusual."""
        return self.n_rows * torch.exp(-surprise)

    def probability(self, surprise: Tensor) -> Tensor:
        """Probability (N,) of being OOD: Bayes' rule with the prior `ood_prior`."""
        ratio = surprise - 2 * torch.log1p(surprise / OOD_SCALE) - math.log(OOD_SCALE)
        log_odds = ratio + math.log(self.ood_prior / (1 - self.ood_prior))
        return log_odds.clamp(max=math.log(LARGEST_ODDS)).sigmoid()

    def enough(self, surprise: Tensor) -> Tensor:
        """Share (N,) of noise that is told from ignorance, by the number of rows like this one."""
        squared = self.rows_like_this(surprise).square()
        return squared / (squared + ENOUGH_ROWS**2)

    def hedge(self, views: Mapping[str, Tensor]) -> Tensor:
        """Share kappa (N,) of the uniform distribution in the prediction.

        Its odds are those of `ood_prior` times a power of the distance from the data. To its square
        by densities, those of what is beyond usual residuals, as a log, and categories are added.
        """
        squared = self._squared_distance(views)
        for name, (_, beside) in self.weights.items():
            if beside:
                beyond = self.views[name].beyond(views[name])
                squared = squared + (beyond if name in _WITH_TIES else beyond.log1p()).square()
        odds = self.ood_prior / (1 - self.ood_prior) * squared ** (self.power / 2)
        return 1 - 1 / (1 + odds.clamp(max=LARGEST_ODDS))

    def _squared_distance(self, views: Mapping[str, Tensor]) -> Tensor:
        """Weighted mean (N,) of the squared distances by each density.

        The weight of Gaussians grows with their distance: flows know the shape of the data, but
        far away they extrapolate in spikes.
        """
        summed = total = torch.zeros_like(next(iter(views.values())), dtype=torch.float64)
        for name, (weight, beside) in self.weights.items():
            if not beside:
                square = self.views[name].distance(views[name]).square()
                share = square.clamp(min=1) if name == "gaussian" else square * 0 + weight
                summed, total = summed + share * square, total + share
        return summed / total


def doubted(probabilities: Tensor, kappa: Tensor) -> Tensor:
    """Mix class `probabilities` (..., N, K) with the uniform distribution, with weight kappa (N,).

    Examples
    --------
    >>> doubted(torch.tensor([[1.0, 0.0]]), torch.tensor([0.5]))
    tensor([[0.7500, 0.2500]])
    """
    weight = kappa[:, None]
    return (1 - weight) * probabilities + weight / probabilities.shape[-1]


def doubted_draws(draws: Tensor, kappa: Tensor, unknown: Tensor) -> Tensor:
    """Replace a fraction of the draws (S, N, K) by certain ones of any class.

    The share of the replaced draws is `unknown` (N,). The mean stays that of the draws mixed with
    the uniform distribution by kappa (N,), which is at most that, and the mean entropy falls to
    `1 - unknown` times theirs, up to rounding to whole draws.
    """
    n_draws, _, n_classes = draws.shape
    order = (_GOLDEN * torch.arange(1, n_draws + 1, dtype=torch.float64)).frac().argsort()
    rank = order.argsort().to(draws.device)
    share = torch.where(unknown > 0, kappa / unknown, 0.0)
    of_unknown = doubted(draws.mean(dim=0), share).cumsum(dim=1)  # (N, K)
    place = (_GOLDEN * (rank.double() + 0.5)).frac().to(of_unknown)
    winner = (place[:, None, None] > of_unknown[None]).sum(dim=2).clamp(max=n_classes - 1)
    certain = torch.nn.functional.one_hot(winner, n_classes).to(draws)
    is_unknown = (rank[:, None] + 0.5) / n_draws < unknown
    return torch.where(is_unknown[:, :, None], certain, draws)
