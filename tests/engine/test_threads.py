"""Small work runs on one thread, large work on all that torch may have."""

import os
import subprocess
import sys
from threading import get_ident

import pytest
import torch

from bacoun.engine.threads import independent_workers, one_thread, threads_for


def test_small_work_runs_on_one_thread_and_large_work_on_all():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(1e3):
            assert torch.get_num_threads() == 1
        with threads_for(1e12):
            assert torch.get_num_threads() == 2
        with pytest.raises(KeyError), threads_for(1e3):
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_blocks_may_be_nested_and_the_outermost_setting_is_the_limit():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(1e3):
            with threads_for(1e12):
                assert torch.get_num_threads() == 2
            assert torch.get_num_threads() == 1
            with independent_workers() as run:
                assert run(lambda k: (k, torch.get_num_threads()), range(3)) == [
                    (0, 1),
                    (1, 1),
                    (2, 1),
                ]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_one_thread_limits_large_work_and_the_number_of_workers():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            with threads_for(1e12):
                assert torch.get_num_threads() == 1
            with independent_workers() as run:
                assert len({*run(lambda k: get_ident(), range(8))}) == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_wait_asleep_unless_the_user_says_otherwise(given, expected):
    environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    code = "import bacoun, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == [expected, "False"]  # torch reads it when it is loaded
