"""The studies on images, on small files in the layout of the real ones, and what they draw."""

import numpy as np
import pytest
from reproduction.pages.figures import draw_figures
from reproduction.pages.tables import markdown_table
from reproduction.pages.tables import number as shown
from reproduction.run import run_experiment
from reproduction.studies.images import rotated, typical
from reproduction.studies.vae import VAE, autoencoders, line_between, mean_loss

from reproduction import load_records, missing_files, read_experiment
from reproduction.datasets import load_images, load_mnist

SMALL = {
    "features": {"hidden": [8, 16], "epochs": 4},
    "posterior": {"kind": "laplace", "n_draws": 30},
}
BACOUN = SMALL | {
    "kind": "bacoun",
    "boundary": {"n_components": 4, "shell": {"epochs": 2, "blocks": 1, "hidden": 8}},
    "n_boundary": 100,
}


@pytest.fixture(autouse=True)
def here(image_folder, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("BACOUN_DATA", str(image_folder))
    monkeypatch.setenv("BACOUN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def small(name, methods=None, **options):
    experiment = read_experiment(name, quick=True)
    dataset = experiment.dataset | {"n_train": 300, "n_asked": 50}
    methods = methods or {"BaCOUn": BACOUN, "NLM": SMALL | {"kind": "nlm"}}
    return experiment.model_copy(
        update={"dataset": dataset, "methods": methods, "options": experiment.options | options}
    )


def test_a_seed_draws_the_training_images_of_the_records():
    data = load_mnist(n_train=50, n_asked=40, others=[], random_state=1)
    rng = np.random.default_rng(1)
    rng.permutation(10)
    images, labels = load_images("mnist")
    rows = rng.permutation(len(images))[:50]
    np.testing.assert_array_equal(data.points, images[rows])
    np.testing.assert_array_equal(data.labels, labels[rows])
    assert len(data.regions["in"]) == 40


def test_what_is_asked_changes_no_training_image():
    few, many = load_mnist(n_train=50, others=[]), load_mnist(n_train=50)
    np.testing.assert_array_equal(few.points, many.points)
    assert set(many.regions) == {"in", "emnist-balanced", "emnist-letters", "usps", "cifar10"}


def test_files_that_are_not_here_are_named(monkeypatch, tmp_path):
    experiment = read_experiment("mnist-examples")
    assert missing_files(experiment) == []
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    assert missing_files(experiment) == ["mnist", "usps"]
    assert missing_files(read_experiment("wine")) == []


def test_turning_by_right_angles_moves_pixels_and_changes_none():
    images = load_images("digits")[0][:5]
    np.testing.assert_allclose(rotated(images, 0), images)
    np.testing.assert_allclose(rotated(images, 180), images[:, ::-1, ::-1], atol=1e-6)
    np.testing.assert_allclose(rotated(images, 90), np.rot90(images, axes=(1, 2)), atol=1e-6)


def test_the_typical_digit_is_the_one_nearest_to_the_mean():
    data = load_mnist(n_train=50, others=[])
    chosen = typical(data, 3, 7)
    threes = data.test_points[data.test_labels == 3]
    distance = np.square(threes - threes.mean(axis=0)).sum(axis=(1, 2))
    np.testing.assert_array_equal(chosen[0], threes[distance.argmin()])
    assert len(chosen) == 7
    assert len(np.unique(chosen.reshape(7, -1), axis=0)) == 7


def test_every_set_is_measured_and_drawn(tmp_path):
    experiment = small("mnist")
    records = run_experiment(experiment, tmp_path)
    ours = next(record for record in records if record.method == "BaCOUn")
    sets = {"emnist-balanced", "emnist-letters", "usps", "cifar10", "boundary", "smooth boundary"}
    for measure in ("auroc", "aupr", "fpr_at_tpr"):
        scores = ours.numbers[measure]
        assert set(scores) == {"total", "aleatoric", "epistemic", "p_ood", "rarity", "ood_score"}
        assert all(set(of_score) == sets for of_score in scores.values())
    assert ours.numbers["auroc"]["rarity"]["cifar10"] > 0.9  # colorful noise is no digit
    assert 0 <= ours.numbers["ece"] <= 1
    table = markdown_table(experiment, records)
    told, mean = ours.numbers["auroc"]["p_ood"]["usps"], ours.numbers["epistemic"]["in"]
    assert f"| BaCOUn | p(OOD) | {told:.3f} / " in table
    assert f"| BaCOUn | epistemic | {shown(mean)} ± " in table
    assert "| NLM | p(OOD) |" not in table
    (figure,) = draw_figures(experiment, records, tmp_path)
    assert figure.name == "mnist-sets.png"


def test_a_fit_is_shared_between_experiments(tmp_path, monkeypatch):
    run_experiment(small("mnist-noise", n_images=5), tmp_path)
    monkeypatch.setattr("reproduction.fits.make_method", None)  # nothing may be fitted now
    records = run_experiment(small("mnist-rotations", n_images=5), tmp_path)
    assert {record.method for record in records} == {"BaCOUn", "NLM"}
    assert 0 <= records[0].numbers["read as a 6 at 180"]["9"] <= 1
    assert draw_figures(small("mnist-rotations"), records, tmp_path)


def test_noise_is_measured_level_by_level(tmp_path):
    experiment = small("mnist-noise", n_images=5)
    records = run_experiment(experiment, tmp_path)
    ours = next(record for record in records if record.method == "BaCOUn")
    assert ours.arrays["epistemic"].shape == (11, 5)
    rise = ours.numbers["epistemic"]["noisiest"] - ours.numbers["epistemic"]["clean"]
    assert ours.numbers["epistemic"]["rise"] == pytest.approx(rise)
    assert draw_figures(experiment, records, tmp_path)


def test_images_to_show_are_chosen_by_rule_and_not_passed_on(tmp_path, monkeypatch):
    methods = {
        "BaCOUn": BACOUN,
        "BNN": {"kind": "bnn", "hidden": [8], "n_iterations": 20, "n_draws": 3},
    }
    experiment = small("mnist-examples", methods, n_images=40)
    records = run_experiment(experiment, tmp_path)
    assert [name for name in records[0].arrays if name.startswith("images")] == ["images boundary"]
    assert draw_figures(experiment, load_records(tmp_path, experiment), tmp_path)
    monkeypatch.setenv("BACOUN_DATA", str(tmp_path))
    assert not draw_figures(experiment, load_records(tmp_path, experiment), tmp_path)


def test_a_morph_walks_from_one_digit_to_the_other(tmp_path):
    experiment = small("mnist-morph", epochs=1, n_vae=200)
    records = run_experiment(experiment, tmp_path)
    for record in records:
        assert record.arrays["images 0 to 5, ours"].shape == (21, 28, 28)
        assert 0 < record.numbers["epistemic"]["0 to 6, ours"]["where"] < 1
        unsure = record.arrays["total 0 to 5, ours"] > 0.325
        assert record.numbers["unsure"]["0 to 5, ours"] == pytest.approx(unsure.mean(), abs=0.05)
    assert draw_figures(experiment, records, tmp_path)


def test_the_published_autoencoder_is_asked_where_its_weights_are(image_folder):
    vae = autoencoders(1, 200)["ours"]
    (image_folder / "vae").mkdir()
    weights = {name: weight.numpy() for name, weight in vae.state_dict().items()}
    path = image_folder / "vae" / "dl4g_vae_2d_mnist.npz"
    np.savez(path, **weights)
    found = autoencoders(1, 200)
    path.unlink()
    assert list(found) == ["ours", "published"]
    images = load_images("mnist", "test")[0]
    assert mean_loss(found["published"], images) == pytest.approx(mean_loss(vae, images))


def test_the_ends_of_a_morph_read_as_their_digits():
    """By the nearest training images; the mean of all codes of a digit need not."""
    data = load_mnist(n_train=300, others=[])
    vae = autoencoders(15, 300)["ours"]
    for first, last in ((0, 6), (0, 1)):
        _, images = line_between(vae, data, first, last)
        for image, digit in ((images[0], first), (images[-1], last)):
            distance = np.square(data.points - image).sum(axis=(1, 2))
            assert (data.labels[distance.argsort()[:5]] == digit).mean() > 0.5


def test_the_autoencoder_learns_and_is_kept(monkeypatch):
    vae, untrained = (autoencoders(epochs, 300)["ours"] for epochs in (3, 0))
    images = load_images("mnist", "test")[0]
    assert mean_loss(vae, images) < 0.8 * mean_loss(untrained, images)
    monkeypatch.setattr("reproduction.studies.vae.train", None)  # nothing may be trained now
    again = autoencoders(3, 300)["ours"]
    assert isinstance(again, VAE)
    assert mean_loss(again, images) == mean_loss(vae, images)
    codes = vae.codes(images[:4])
    assert vae.images(codes).shape == (4, 28, 28)
