import json

import pytest

from bacoun.comparison.record import resume


def test_only_what_is_missing_is_run_and_each_run_is_saved_at_once(tmp_path):
    path, calls = tmp_path / "runs.json", []

    def task(name, fails=False):
        def run():
            calls.append(name)
            if fails:
                raise RuntimeError("interrupted")
            return {"value": name}

        return run

    with pytest.raises(RuntimeError, match="interrupted"):
        resume(path, {"a": task("a"), "b": task("b", fails=True)}, {"table": "t"})
    record = resume(path, {"a": task("a"), "b": task("b")}, {"table": "other"})
    assert calls == ["a", "b", "b"]
    assert record["table"] == "t"
    assert {name: run["value"] for name, run in record["runs"].items()} == {"a": "a", "b": "b"}
    assert json.loads(path.read_text()) == record


def test_a_failed_run_is_named_if_asked_and_the_others_go_on(tmp_path):
    def fails():
        raise KeyError("no such\ncolumn")

    record = resume(tmp_path / "r.json", {"bad": fails, "good": lambda: {"x": 1}}, {}, catch=True)
    assert record["runs"]["bad"]["failed"] == r"KeyError: 'no such\ncolumn'"
    assert record["runs"]["good"]["x"] == 1


def test_progress_counts_what_was_done_before(tmp_path):
    told = []
    tasks = dict.fromkeys("abc", dict)
    resume(tmp_path / "r.json", {"a": dict}, {})
    resume(tmp_path / "r.json", tasks, {}, on_run=lambda *said: told.append(said))
    assert told == [("b", 1, 3), ("c", 2, 3)]
