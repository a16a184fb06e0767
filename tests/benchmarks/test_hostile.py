"""The hostile hour of `make hostile`, cut down to half a minute."""

from benchmarks.hostile import failures, run


def test_ordinary_answers_are_right_beside_hostile_clients():
    found = run(minutes=0.5)
    assert failures(found) == []
    assert found["counts"]["ordinary: right"] > 200
    assert found["counts"]["malformed: refused"] > 10
    assert found["counts"]["workers killed"] > 0
