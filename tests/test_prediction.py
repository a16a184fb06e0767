"""What counts as usual disagreement of the draws."""

import pytest
import torch

from bacoun.posterior import Laplace
from bacoun.prediction import Predictor, usual_disagreement


@pytest.mark.parametrize(
    ("n_rows", "smallest"), [(100, 1e-3), (100_000, 1e-3), (4_000_000, 2.5e-5), (10**12, 1e-6)]
)
def test_draws_that_agree_are_measured_by_a_limit_that_falls_with_the_rows(n_rows, smallest):
    """Each row counts so often that the posterior is a point."""
    features = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = (features[:, 0] > features[:, 1] ** 2).long()
    weights = torch.full((60,), 1e9, dtype=torch.float64)
    head = Laplace(n_draws=50).fit(features, labels, sample_weight=weights)
    predictor = Predictor(None, None, head, None)
    assert usual_disagreement(predictor, features, n_rows) == pytest.approx(smallest)


def test_draws_that_disagree_are_measured_by_what_5_percent_exceed():
    features = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    head = Laplace(n_draws=50, prior_scale=1.0).fit(features, (features[:, 0] > 0).long())
    found = usual_disagreement(Predictor(None, None, head, None), features, 60)
    mean, entropy = head.predict_moments(features)
    epistemic = torch.special.entr(mean).sum(dim=1) - entropy
    assert float((epistemic > found).double().mean()) == pytest.approx(0.05)
