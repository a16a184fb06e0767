import json

import pytest
from sklearn.datasets import load_wine

from bacoun.cli import main
from bacoun.comparison import methods


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "wine.csv"
    load_wine(as_frame=True).frame.to_csv(path, index=False)
    return path


def run(capsys, *arguments):
    main([str(each) for each in arguments])
    return capsys.readouterr()


def failing(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([str(each) for each in arguments])
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1
    return said


def test_methods_are_compared_and_a_page_is_written(table, tmp_path, capsys):
    command = ["compare", table, "--target", "target", "--methods", "forest,kNN,logistic"]
    said = run(capsys, *command).out
    page = (tmp_path / "wine.compare.html").read_text()
    for name in ("forest", "kNN", "logistic", "class 0", "one number x 10"):
        assert name in said
        assert name in page
    assert "is first by mean rank" in said


def test_the_same_command_resumes_and_other_options_do_not(table, tmp_path, capsys, monkeypatch):
    page = tmp_path / "p.html"
    command = ["compare", table, "--target", "target", "--out", page, "--methods"]
    run(capsys, *command, "forest", "--json")
    page.unlink()
    fitted = []
    fit = methods.METHODS["kNN"].fit
    monkeypatch.setitem(
        methods.METHODS,
        "kNN",
        methods.Method(lambda case, seed: fitted.append(seed) or fit(case, seed), ("kNN",)),
    )
    monkeypatch.setitem(methods.METHODS, "forest", methods.Method(None, ("forest",)))
    found = json.loads(run(capsys, *command, "forest,kNN", "--json").out)
    assert set(found["methods"]) == {"forest", "kNN"}
    assert len(fitted) == 4  # synthetic shifts, and each of three classes left out
    page.unlink()
    said = failing([*command, "forest", "--max-rows", "60"], capsys)
    assert "another max_rows" in said
    assert "--overwrite" in said


def test_a_method_that_fails_is_named_and_skipped(table, tmp_path, capsys, monkeypatch):
    def fails(case, seed):
        raise RuntimeError("out of luck")

    monkeypatch.setitem(methods.METHODS, "LOF", methods.Method(fails, ("LOF",)))
    command = ["compare", table, "--target", "target", "--out", tmp_path / "p.html"]
    found = json.loads(run(capsys, *command, "--methods", "forest,LOF", "--json").out)
    assert set(found["methods"]) == {"forest"}
    assert found["failed"]["class 0/0/LOF"] == "RuntimeError: out of luck"


def test_a_missing_package_is_named_and_the_method_skipped(table, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(
        methods.METHODS, "ECOD", methods.Method(None, ("ECOD",), package="no_such_package")
    )
    command = ["compare", table, "--target", "target", "--out", tmp_path / "p.html"]
    said = run(capsys, *command, "--methods", "forest,ECOD")
    assert "ECOD needs no_such_package, which is not installed" in said.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--target", "nothing"], "there is no 'nothing'"),
        (["--target", "target", "--methods", "oracle"], "--methods must be of bacoun, forest"),
        (["--target", "target", "--out", "page.txt"], "--out must end in .html"),
        (["--target", "target", "--group", "nothing"], "group must be a column"),
        (["--target", "target", "--time", "nothing"], "time must be a column"),
    ],
)
def test_bad_input_gets_one_sentence(table, capsys, arguments, expected):
    assert expected in failing(["compare", table, *arguments], capsys)


def test_a_broken_file_of_runs_is_refused_and_kept(table, tmp_path, capsys):
    runs = tmp_path / "p.json"
    runs.write_text("{")
    said = failing(["compare", table, "--target", "target", "--out", tmp_path / "p.html"], capsys)
    assert "must hold runs of bacoun compare" in said
    assert runs.read_text() == "{"
