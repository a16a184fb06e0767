"""Bars go to stderr, and only when asked for."""

from bacoun.progress import progress_bars


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
