import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, load_wine

from bacoun.comparison.cases import (
    SYNTHETIC,
    Case,
    Rows,
    cases_of,
    difficulty,
    with_synthetic_shifts,
)


@pytest.fixture(scope="module")
def mixed():
    """A table of two numbers and a category, three classes, a group and a time."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, size=300)
    return pd.DataFrame(
        {
            "height": rng.normal(label, 0.3) + 10,
            "weight": rng.normal(-label, 0.3),
            "color": np.array(["red", "green", "blue"])[rng.integers(0, 3, size=300)],
            "site": np.array(["A", "B"])[rng.integers(0, 2, size=300)],
            "day": np.arange(300),
            "label": label,
        }
    )


def made(frame, **options):
    return {name: make() for name, make in cases_of(frame, "label", seed=0, **options)}


def test_a_table_offers_its_classes_groups_and_late_rows(mixed):
    found = made(mixed, time="day", group="site")
    assert set(found) == {
        "synthetic",
        "later",
        *("site A", "site B"),
        *("class 0", "class 1", "class 2"),
    }
    assert set(found["synthetic"].shifts) == set(SYNTHETIC)


def test_time_and_group_are_no_inputs(mixed):
    case = made(mixed, time="day", group="site")["later"]
    assert case.train.points.shape[1] == 3
    assert case.categorical == [2]


def test_a_left_out_class_is_in_no_other_part_and_has_no_labels(mixed):
    case = made(mixed)["class 1"]
    assert case.n_classes == 2
    assert case.shifts["class 1"].labels is None
    assert len(case.shifts["class 1"]) == (mixed["label"] == 1).sum()
    assert abs(case.shifts["class 1"].points[:, 0].mean() - 11) < 0.1
    with pytest.raises(ValueError, match="must have labels"):
        _ = case.shifts["class 1"].truth


def test_late_rows_are_the_latest_and_keep_their_labels(mixed):
    frame = mixed.assign(height=mixed["day"] / 10.0)  # a column that gives the time away
    case = made(frame, time="day")["later"]
    later = case.shifts["later"]
    assert later.points[:, 0].min() > max(case.train.points[:, 0].max(), 20)
    assert later.labels is not None


def test_identical_rows_are_on_one_side(mixed):
    doubled = pd.concat([mixed, mixed], ignore_index=True)
    case = made(doubled.drop(columns=["day", "site"]))["synthetic"]
    train = {tuple(row) for row in case.train.points}
    assert not any(tuple(row) in train for row in case.test.points)


def test_parts_have_at_most_so_many_rows(mixed):
    case = made(mixed, max_train=60, max_test=40)["synthetic"]
    assert (len(case.train), len(case.test)) == (60, 40)


def test_a_table_without_two_classes_besides_the_shift_is_refused(mixed):
    frame = mixed[mixed["label"] < 2].assign(site=lambda rows: rows["label"].map(str))
    with pytest.raises(ValueError, match="must have two classes"):
        made(frame, group="site")


# --- synthetic shifts ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wine():
    frame = load_wine(as_frame=True).frame
    return Case.from_frames(frame[::2], frame[1::2], {}, "target")


def test_one_number_times_ten_changes_one_number_in_each_row(wine):
    points = SYNTHETIC["one number x 10"](wine, np.random.default_rng(0))
    changed = points != wine.test.points
    assert (changed.sum(axis=1) == 1).all()
    np.testing.assert_allclose(points[changed], 10 * wine.test.points[changed])


def test_shuffled_columns_keep_their_margins(wine):
    points = SYNTHETIC["columns shuffled"](wine, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(points, axis=0), np.sort(wine.test.points, axis=0))
    assert (points != wine.test.points).any(axis=1).all()


def test_foreign_rows_have_the_mean_and_spread_of_ours(wine):
    points = SYNTHETIC["foreign rows"](wine, np.random.default_rng(0))
    train = wine.train.points
    np.testing.assert_allclose(points.mean(axis=0), train.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(points.std(axis=0), train.std(axis=0), rtol=1e-6)


def test_the_box_is_that_of_the_training_rows(wine):
    points = SYNTHETIC["uniform box"](wine, np.random.default_rng(0))
    train = wine.train.points
    assert (points >= train.min(axis=0)).all()
    assert (points <= train.max(axis=0)).all()


def test_gaussians_are_as_far_as_they_say(wine):
    train = wine.train.points
    for distance in (1, 3, 10):
        points = SYNTHETIC[f"Gaussian at {distance} sd"](wine, np.random.default_rng(0))
        standard = (points - train.mean(axis=0)) / train.std(axis=0)
        assert np.sqrt((standard**2).mean()) == pytest.approx(np.sqrt(distance**2 + 1), rel=0.1)


def test_categories_stay_categories(mixed):
    case = made(mixed.drop(columns=["day", "site"]))["synthetic"]
    for rows in case.shifts.values():
        assert set(rows.points[:, 2]) <= {0.0, 1.0, 2.0}


def test_a_table_of_categories_alone_has_no_shifts_of_numbers():
    points = np.random.default_rng(0).integers(0, 4, size=(60, 3)).astype(float)
    rows = Rows(points, np.arange(60) % 2, np.zeros(60, dtype=bool))
    case = with_synthetic_shifts(Case(rows, rows, [0, 1, 2], 2), seed=0)
    assert set(case.shifts) == {"columns shuffled", "uniform box"}


def test_what_is_the_same_cannot_be_told_apart_and_what_is_far_can():
    points = load_iris().data
    nothing = np.zeros(75, dtype=bool)
    one, other, far = (Rows(p, None, nothing) for p in (points[::2], points[1::2], points[::2] + 9))
    assert difficulty(one, other, 0) < 0.65
    assert difficulty(one, far, 0) > 0.99
