import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from bacoun import UncertaintyDisplay

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model(fast_model):
    return fast_model


@pytest.fixture(scope="module")
def three_classes(fast):
    X, y = make_blobs(90, centers=3, random_state=0)
    names = np.array(["red", "green", "blue"])[y]
    return fast().fit(X, names), X, names


def meshes(display):
    return [axis.collections[0] for axis in display.axes_]


def test_the_display_holds_a_square_grid_of_each_part(model, moons):
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=12)
    assert display.x.shape == display.y.shape == (12,)
    assert display.regions.shape == (12, 12)
    for part in ("total", "aleatoric", "epistemic"):
        assert getattr(display.uncertainty, part).shape == (12, 12)
    assert display.axes_.shape == (4,)
    assert display.figure_ is display.axes_[0].figure


def test_rows_of_the_grid_are_y_and_columns_x(model, moons):
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=12)
    point = [[display.x[3], display.y[8]]]
    assert display.uncertainty.total[8, 3] == pytest.approx(model.uncertainty(point).total[0])
    assert display.regions[8, 3] == model.region_proba(point).argmax()


def test_the_three_uncertainties_share_one_color_scale_from_zero_to_log_k(three_classes):
    model, X, names = three_classes
    display = UncertaintyDisplay.from_estimator(model, X, names, grid_resolution=8)
    for mesh in meshes(display)[1:]:
        assert mesh.get_clim() == (0, math.log(3))
        assert mesh.get_cmap().name == "magma"


def test_the_plot_shows_the_stored_values(model, moons):
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=8)
    drawn = [np.asarray(mesh.get_array()).ravel() for mesh in meshes(display)]
    parts = display.uncertainty
    for array, held in zip(
        drawn, (display.regions, parts.total, parts.aleatoric, parts.epistemic), strict=True
    ):
        np.testing.assert_array_equal(array, held.ravel())


def test_the_plane_reaches_beyond_the_data_by_the_margin(model, moons):
    X, y = moons
    display = UncertaintyDisplay.from_estimator(model, X, y, grid_resolution=8, margin=0.5)
    width = np.ptp(X[:, 0])
    assert display.x[0] == pytest.approx(X[:, 0].min() - width / 2)
    assert display.x[-1] == pytest.approx(X[:, 0].max() + width / 2)


def test_each_class_has_its_name_in_the_legend(three_classes):
    model, X, names = three_classes
    display = UncertaintyDisplay.from_estimator(model, X, names, grid_resolution=8)
    legend = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert legend == ["blue", "green", "red"]


def test_each_class_keeps_its_points(three_classes):
    model, X, names = three_classes
    display = UncertaintyDisplay.from_estimator(model, X, names, grid_resolution=8)
    for scatter in display.axes_[0].collections[1:]:
        np.testing.assert_array_equal(scatter.get_offsets(), X[names == scatter.get_label()])


def test_labels_may_be_left_out(model, moons):
    display = UncertaintyDisplay.from_estimator(model, moons[0], grid_resolution=8)
    assert display.axes_[0].get_legend() is None
    assert len(display.axes_[0].collections) == 2


def test_a_data_frame_names_the_axes(fast, moons):
    X, y = moons
    frame = pd.DataFrame(X, columns=["length", "width"])
    model = fast().fit(frame, y)  # a grid without names would warn, and warnings are errors here
    display = UncertaintyDisplay.from_estimator(model, frame, pd.Series(y), grid_resolution=8)
    assert display.axes_[0].get_xlabel() == "length"
    assert display.axes_[0].get_ylabel() == "width"


def test_axes_can_be_given(model, moons):
    figure, axes = plt.subplots(2, 2)
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=8, axes=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes.ravel())


def test_a_display_can_be_drawn_again(model, moons):
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=8)
    first = display.figure_
    assert display.plot(title="again") is display
    assert display.figure_ is not first
    assert display.axes_[0].get_ylabel() == "again"


def test_without_an_edge_class_the_regions_are_those_of_the_classes(fast, moons):
    model = fast(boundary=None).fit(*moons)
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=8)
    assert set(np.unique(display.regions)) <= {0, 1}


def test_far_away_the_regions_say_out_of_distribution(fast, moons):
    model = fast().set_params(features__epochs=100).fit(*moons)
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=8, margin=5)
    assert (display.regions[[0, 0, -1, -1], [0, -1, 0, -1]] == 2).all()


def test_a_constant_column_still_has_a_plane(fast, moons):
    X, y = moons
    flat = np.column_stack([X[:, 0], np.zeros(len(X))])
    display = UncertaintyDisplay.from_estimator(fast().fit(flat, y), flat, y, grid_resolution=8)
    assert display.y[-1] > display.y[0]
    display.figure_.canvas.draw()


def test_three_inputs_are_refused_in_one_sentence(fast):
    X, y = make_blobs(60, n_features=3, centers=2, random_state=0)
    with pytest.raises(ValueError, match=r"2 columns .*; got shape \(60, 3\)") as info:
        UncertaintyDisplay.from_estimator(fast().fit(X, y), X, y)
    assert "\n" not in str(info.value)
    assert "PCA" in str(info.value)


def test_regions_are_grey_where_a_point_is_more_likely_unknown_than_not(model, moons):
    display = UncertaintyDisplay.from_estimator(model, *moons, grid_resolution=20)
    grid = np.stack(np.meshgrid(display.x, display.y), axis=-1).reshape(-1, 2)
    unknown = model.ood_probability(grid) > 0.5
    regions = display.regions.ravel()
    assert 0 < unknown.sum() < len(grid)
    np.testing.assert_array_equal(regions == len(model.classes_), unknown)
    np.testing.assert_array_equal(model.classes_[regions[~unknown]], model.predict(grid)[~unknown])
