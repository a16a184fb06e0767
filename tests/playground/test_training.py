"""Fits for pages: told while they run, kept, and given up when nobody waits."""

import asyncio
import json
import time
from contextlib import aclosing

import pytest

from bacoun.engine.progress import progress_bars
from bacoun.playground.training import Trainer
from bacoun.web.errors import ApiError

HERE = "tests.playground.test_training:slow"


def slow(asked):
    """A fit that takes as many steps of 10 ms as it is asked for."""
    if asked["steps"] < 0:
        raise ValueError("steps must not be negative.")
    with progress_bars(show=False) as bar_for:
        on_epoch = bar_for("wait")
        for step in range(asked["steps"]):
            time.sleep(0.01)
            on_epoch(step + 1, asked["steps"])
    return {"asked": asked}


@pytest.fixture
def run():
    """A function that runs a coroutine with a trainer."""

    def with_trainer(use):
        async def inside():
            trainer = Trainer(HERE)
            try:
                return await use(trainer)
            finally:
                await trainer.close()

        return asyncio.run(inside())

    return with_trainer


def test_a_fit_is_followed_kept_refused_and_given_up(run):
    async def use(trainer):
        events = [event async for event in trainer.follow({"steps": 30})]
        assert [event["event"] for event in (events[0], events[-1])] == ["waiting", "done"]
        assert any(event["event"] == "progress" for event in events)
        kept = [event["event"] async for event in trainer.follow({"steps": 30})]
        assert kept == ["done"]

        with pytest.raises(ApiError, match="not be negative"):
            await trainer.result({"steps": -1})

        async with aclosing(trainer.follow({"steps": 100_000})) as long:
            assert (await anext(long))["event"] == "waiting"
            assert (await anext(long))["event"] == "progress"
        # Whoever asks next does not wait for what nobody wants.
        return await asyncio.wait_for(
            trainer.result({"steps": 1}), 500
        )  # not the 1000 of the other

    assert json.loads(run(use)) == {"asked": {"steps": 1}}


def test_too_many_fits_are_refused(run):
    async def use(trainer):
        asked = [asyncio.create_task(trainer.result({"steps": 1000 + k})) for k in range(20)]
        while not any(task.done() for task in asked):
            await asyncio.sleep(0.01)
        refused = [task for task in asked if task.done()]
        for task in asked:
            task.cancel()
        return [str(task.exception()) for task in refused]

    assert set(run(use)) == {"too many fits are waiting; try again in a moment."}
