"""A child process answers, ends with its pipe, and is started again if it was killed."""

import os
import signal

import pytest

from bacoun.engine.processes import Child, messages


def add_one(connection, start):
    for number in messages(connection):
        connection.send((os.getpid(), start + number + 1))


@pytest.fixture
def child():
    started = Child(add_one, 10)
    yield started
    started.stop()


def asked(child, number):
    connection = child.connect()
    connection.send(number)
    return connection.recv()


def test_one_process_answers_all_that_is_sent(child):
    (first, eleven), (second, twelve) = asked(child, 0), asked(child, 1)
    assert (eleven, twelve) == (11, 12)
    assert first == second != os.getpid()
    assert child.n_started == 1


def test_a_killed_process_closes_its_pipe_and_another_takes_its_place(child):
    process, _ = asked(child, 0)
    connection = child.connect()
    os.kill(process, signal.SIGKILL)
    with pytest.raises((EOFError, OSError)):
        connection.recv()
    child.stop()
    again, eleven = asked(child, 0)
    assert again != process
    assert (eleven, child.n_started) == (11, 2)


def test_a_stopped_process_is_gone(child):
    process, _ = asked(child, 0)
    child.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
