"""Several processes under torchrun train as one with the larger batch, on their shares of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from bacoun.features import LearnedFeatures, TabularFeatures
from bacoun.protocols import FitContext

SCRIPT = """
import sys
import torch
from pathlib import Path
sys.path.insert(0, {folder!r})
from test_distributed import curves
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
Path({out!r}, f"{{rank}}.json").write_text(curves(batch_size=32))
torch.distributed.destroy_process_group()
"""


def curves(batch_size):
    """Losses of each epoch, and the weights of the last, of two networks without dropout."""
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(300, 4, generator=generator)
    labels = (points[:, 0] + points[:, 1] ** 2 > 1).long()
    boundary = 3 * torch.randn(60, 4, generator=generator)
    settings = {"epochs": 8, "batch_size": batch_size, "learning_rate": 0.01, "patience": 100}
    found = {}
    for network in (
        LearnedFeatures(hidden=(16, 16), l2_over="batch", **settings),
        TabularFeatures(hidden=(16, 8), n_trees=5, n_members=3, **settings),
    ):
        context = FitContext(boundary_points=boundary, generator=torch.Generator().manual_seed(1))
        network.fit(points, labels, context)
        history = network.history_
        weights = [float(each.detach().double().sum()) for each in network.module_.parameters()]
        found[type(network).__name__] = [history.train, history.held_out, weights]
    return json.dumps(found)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """What each of two processes found, with half of the batch."""
    folder = tmp_path_factory.mktemp("torchrun")
    script = folder / "script.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent), out=str(folder)))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(script)],
        check=True,
        capture_output=True,
        env=environment,
        timeout=300,
    )
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_two_processes_have_the_loss_curve_of_one_with_the_doubled_batch(of_two):
    one = json.loads(curves(batch_size=64))
    for name, (train, held_out, weights) in one.items():
        for other in of_two:
            np.testing.assert_allclose(other[name][0], train, atol=1e-4)
            np.testing.assert_allclose(other[name][1], held_out, atol=1e-4)
            np.testing.assert_allclose(other[name][2], weights, atol=1e-2)
        assert train[-1] < 0.9 * train[0]


def test_all_processes_end_with_the_same_weights(of_two):
    assert of_two[0] == of_two[1]
