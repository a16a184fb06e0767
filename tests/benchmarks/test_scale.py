"""The benchmark of scale scores the rows that it says, and compares only what agrees."""

import json
import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest
from benchmarks.scale_worker import Forest

from bacoun.cli import main
from benchmarks import scale

N_ROWS = 5000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models and rows, scored in one process in the place of the first way."""
    folder = tmp_path_factory.mktemp("scale")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scale, "N_TRAIN", 500)
        scale.prepare(folder, N_ROWS, quick=True)
    words = ["predict", f"{folder}/model", f"{folder}/rows/*.parquet", "--no-because"]
    main([*words, "--out", str(scale.output(folder, scale.ONE))])
    return folder


@pytest.mark.parametrize("n_rows", [1, 5000, 20_000, 20_000_000])
def test_row_groups_hold_all_rows_in_multiples_of_what_is_scored_at_once(n_rows):
    sizes = scale.group_sizes(n_rows)
    assert sum(sizes) == n_rows
    assert {size % 2048 for size in sizes[:-1]} <= {0}
    assert max(sizes) <= scale.LARGEST_GROUP


def test_rows_are_made_once(folder):
    files = sorted((folder / "rows").iterdir())
    before = [file.stat().st_mtime_ns for file in files]
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in files) == N_ROWS
    scale.prepare(folder, N_ROWS, quick=True)
    assert [file.stat().st_mtime_ns for file in files] == before


def test_ways_that_disagree_are_not_compared(folder):
    one, two = (scale.output(folder, way) for way in (scale.ONE, scale.TWO))
    shutil.copytree(one, two)
    assert scale.largest_difference(folder, scale.TWO) == 0.0
    name = json.loads((two / "summary.json").read_text())["parts"][1]["part"]
    part = pd.read_parquet(two / name)
    part.assign(total=part["total"] + 1e-3).to_parquet(two / name)
    with pytest.raises(AssertionError, match="by at most 1e-6"):
        scale.largest_difference(folder, scale.TWO)
    part.assign(decision="accept").to_parquet(two / name)
    with pytest.raises(AssertionError, match="must decide as"):
        scale.largest_difference(folder, scale.TWO)


def test_the_forest_adds_probabilities_also_to_an_empty_table(folder):
    forest = Forest(str(folder / "forest.pickle"), scale.N_CLASSES)
    rows = pd.read_parquet(folder / "rows")
    found = forest.join(rows)
    assert found[["p_0", "p_1", "p_2"]].sum(axis=1).to_numpy() == pytest.approx(1)
    pd.testing.assert_series_equal(forest.join(rows.head(0)).dtypes, found.dtypes)


def test_the_page_shows_each_way_and_the_speed_up():
    run = {"rows": 100, "peak megabytes of each worker": [500, 1501], "largest difference": 0.0}
    speeds = {scale.ONE: (10.0, 10), scale.TWO: (6.25, 16)}
    runs = {
        way: run
        | {"seconds of scoring": seconds, "rows per second": speed}
        | {"load of the machine before": 0.0}
        for way, (seconds, speed) in speeds.items()
    }
    text = scale.markdown({"runs": runs})
    assert f"| {scale.TWO} | 16 | 6 | 500, 1,501 | 0 |" in text
    assert "100 rows: two workers are 1.60 times as fast as one" in text
    assert "busy" not in text
