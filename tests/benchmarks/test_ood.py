"""The comparison benchmark: its quick form runs, and its tables follow from the record."""

import json

import numpy as np
import pytest

from bacoun.comparison.methods import METHODS
from bacoun.comparison.run import measure, measure_difficulty
from benchmarks import ablations, ood
from benchmarks import record as records


@pytest.fixture(scope="module")
def small_record(tmp_path_factory):
    """Two quick methods and ours, as if measured, on synthetic shifts and a class of wine."""
    path = tmp_path_factory.mktemp("ood") / "ood.json"
    tasks = {}
    for table in ("sklearn-wine", "iris"):
        label = ood.left_out_labels(table)[0]
        made = {
            f"{table}, synthetic": ood._synthetic(table, 0),
            f"{table}, class {label}": ood._natural(
                f"class {label}", lambda t=table, k=label: ood.left_out(t, k), 0
            ),
        }
        for name, case in made.items():
            tasks[f"{name}/0/difficulty"] = lambda c=case: measure_difficulty(c, 0)
            for method in ("forest", "kNN"):
                tasks[f"{name}/0/{method}"] = lambda c=case, m=method: measure(c, m, 0)
    record = records.resume(path, tasks, ("bacoun",))
    for name, run in list(record["runs"].items()):
        if name.endswith("/kNN"):  # ours stands in as a copy with other numbers
            ours = json.loads(json.dumps(run["scores"]["kNN"]))
            for shift in ours["shifts"].values():
                shift["auroc"] = min(1.0, shift["auroc"] + 0.01)
            record["runs"][name.replace("/kNN", "/bacoun")] = run | {"scores": {"bacoun": ours}}
    return record


def test_the_report_half_has_no_development_table(small_record):
    cases = {name.split("/")[0] for name in ood.report_half(small_record)["runs"]}
    assert cases
    assert all(case.startswith("iris") for case in cases)


def test_development_tables_are_tables_and_leave_enough_to_report():
    assert set(ood.DEVELOPMENT) <= set(ood.TABLES)
    assert len(set(ood.TABLES) - set(ood.DEVELOPMENT)) >= 12
    assert set(ablations.TABLES) <= set(ood.DEVELOPMENT)


def test_the_summary_has_every_score_with_its_mean(small_record):
    header, rows = ood.summary_rows(ood.report_half(small_record))
    assert sorted(row[0] for row in rows) == ["bacoun", "forest", "kNN"]
    assert all(len(row) == len(header) for row in rows)
    runs = small_record["runs"]
    mean = np.mean(
        [
            shift["auroc"]
            for name, run in runs.items()
            if name.startswith("iris") and name.endswith("/kNN")
            for shift in run["scores"]["kNN"]["shifts"].values()
        ]
    )
    cell = next(row for row in rows if row[0] == "kNN")[header.index("AUROC [95 %]")]
    assert float(cell.split()[0]) == pytest.approx(mean, abs=6e-4)


def test_every_shift_on_which_ours_is_not_first_is_listed_with_the_winner(small_record):
    rows = {(row[0], row[1]): row for row in ood.not_first_rows(small_record)[1]}
    for name, run in small_record["runs"].items():
        if not name.endswith("/bacoun"):
            continue
        case = name.split("/")[0]
        for shift, numbers in run["scores"]["bacoun"]["shifts"].items():
            others = [
                small_record["runs"][f"{case}/0/{m}"]["scores"][m]["shifts"][shift]["auroc"]
                for m in ("forest", "kNN")
            ]
            assert ((case, shift) in rows) == (max(others) > numbers["auroc"])


def test_the_page_and_the_picture_are_made(small_record, tmp_path):
    assert "| forest |" in ood.markdown(small_record)
    ood.draw_ranks(ood.rankings(small_record), tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").exists()


def test_slow_methods_run_on_a_few_cases_with_one_seed(monkeypatch):
    monkeypatch.setattr(ood, "cases", lambda: {"segment, class 3": None, "iris, class 0": None})
    names = [name for name, _ in ood.tasks(ood.cases(), slow=True)]
    slow = [name for name in names if name.split("/")[2] in ("BNN", "GP")]
    assert slow == ["segment, class 3/0/GP", "segment, class 3/0/BNN"]
    assert sum(name.endswith("/forest") for name in names) == 2 * len(ood.SEEDS)


def test_every_variant_of_the_ablation_is_a_model_with_that_setting():
    for variant, settings in ablations.VARIANTS.items():
        params = ablations.make(settings, 0).get_params()
        for name, value in settings.items():
            assert params[name] == value, variant
    assert METHODS["bacoun"].scores == ("bacoun",)
