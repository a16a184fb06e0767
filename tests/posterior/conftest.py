import pytest
import torch


@pytest.fixture
def small_head():
    """Three overlapping classes on four features, and a few points to ask about."""
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(60, 4, generator=generator, dtype=torch.float64)
    truth = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    labels = (features @ truth).argmax(dim=1)
    flip = torch.rand(60, generator=generator) < 0.2
    labels[flip] = torch.randint(3, (int(flip.sum()),), generator=generator)
    asked = 3 * torch.randn(12, 4, generator=generator, dtype=torch.float64)
    return features, labels, asked
