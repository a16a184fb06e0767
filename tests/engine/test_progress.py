"""Bars go to stderr, and only when asked for."""

import pytest

from bacoun.engine.progress import progress_bars, progress_to


def test_shown_bars_name_the_step_and_count_to_the_end_on_stderr(capsys):
    with progress_bars(show=True) as bar_for:
        for name, planned in [("boundary", 3), ("features", 5)]:
            on_epoch = bar_for(name)
            for done in range(1, planned + 1):
                on_epoch(done, planned)
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert any("boundary" in line and "3/3" in line for line in lines)
    assert any("features" in line and "5/5" in line for line in lines)


def test_hidden_bars_have_no_callback_and_print_nothing(capsys):
    with progress_bars(show=False) as bar_for:
        assert bar_for("boundary") is None
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def test_a_listener_is_told_about_the_steps_and_can_end_a_fit(fast, moons):
    told = []
    with progress_to(lambda *each: told.append(each)):
        fast().fit(*moons)
    steps = dict.fromkeys(step for step, _, _ in told)
    assert list(steps)[:2] == ["boundary", "features"]
    assert all(0 < done <= planned for _, done, planned in told)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress_to(stop):
        fast().fit(*moons)
    fast().fit(*moons)  # nobody listens any more
