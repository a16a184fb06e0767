import pytest
from reproduction.methods import KINDS, flattened, make_method
from reproduction.schema import merged, names, parse_experiment, read_experiment
from reproduction.studies import STUDIES

SMALL = """
title = "t"
study = "regions"
seeds = [0, 1]
columns = ["accuracy"]
dataset = { kind = "moons" }
[methods."A"]
kind = "nlm"
[quick]
seeds = [0]
methods = { "A" = { features = { epochs = 1 } } }
"""


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("quick", [False, True])
def test_every_experiment_can_be_built(name, quick):
    experiment = read_experiment(name, quick=quick)
    assert experiment.study in STUDIES
    assert experiment.seeds
    for settings in experiment.methods.values():
        if settings["kind"] in KINDS:
            model = make_method(settings, seed=3)
            assert model.random_state == 3


@pytest.mark.parametrize("name", names())
def test_quick_overlays_speak_of_methods_that_exist(name):
    full, quick = read_experiment(name), read_experiment(name, quick=True)
    assert set(full.methods) == set(quick.methods)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("quick", [False, True])
def test_a_shared_method_was_fitted_to_the_same_data_and_asked_as_much(name, quick):
    experiment = read_experiment(name, quick=quick)
    for method in experiment.record_of:
        origin, own_name = experiment.origin(method)
        assert own_name not in origin.record_of
        assert origin.study == experiment.study
        assert set(experiment.seeds) <= set(origin.seeds)
        assert experiment.options.items() <= origin.options.items()
        # Test points are drawn apart from those of the fit and of the regions.
        ours, theirs = experiment.dataset, origin.dataset
        assert {**ours, "n_test": 0} == {**theirs, "n_test": 0}


def test_every_toml_file_has_a_place_in_the_order():
    from importlib.resources import files

    tomls = {file.name for file in (files("reproduction") / "experiments").iterdir()}
    assert tomls == {f"{name}.toml" for name in names()}


def test_quick_is_merged_on_top_and_only_when_asked():
    assert parse_experiment("x", SMALL).seeds == [0, 1]
    quick = parse_experiment("x", SMALL, quick=True)
    assert quick.seeds == [0]
    assert quick.methods["A"] == {"kind": "nlm", "features": {"epochs": 1}}


def test_merging_reaches_into_tables_and_leaves_its_inputs_alone():
    below, above = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 9}}
    assert merged(below, above) == {"a": {"b": 9, "c": 2}, "d": 3}
    assert below == {"a": {"b": 1, "c": 2}, "d": 3}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("color = 3\n" + SMALL, "x.toml: the key color must be one of columns, dataset, .*;"),
        (SMALL.replace('title = "t"\n', ""), "title must be given; it is missing"),
        (SMALL + '[published."B"]\naccuracy = 1.0\n', "must name methods of the file; got B"),
        (SMALL.replace("[0, 1]", '[0, "one"]'), "seeds.1 must be a valid integer; got 'one'"),
        (SMALL.replace('["accuracy"]', '"all"'), "columns must be a valid list; got 'all'"),
        (SMALL.replace('kind = "moons"', "n = 3"), "dataset must be a table with a kind; got {'n'"),
        (SMALL.replace('kind = "nlm"', "n = 3"), "methods.A must be a table with a kind; got {'n'"),
        (SMALL + "[options]\nray = true\n", "options.ray must be one of .*, rays, .* unknown"),
        (SMALL + "[options]\nrays = 1\n", "options.rays must be a valid boolean; got 1"),
        (SMALL + "[options.map]\nlow = [0, 0]\n", "options.map.high must be given; .*, and"),
        (
            SMALL.replace("seeds = [0]\n", "seeds = 0\n"),
            r"with \[quick\]: seeds must be a .* got 0",
        ),
        (
            SMALL.replace('kind = "nlm"', 'record_of = { experiment = "gmm", method = "XYZ" }'),
            "methods.A must have nothing but record_of .* one of its methods; got {'record_of'",
        ),
        (
            SMALL.replace('kind = "nlm"', 'record_of = { experiment = "xyz", method = "NLM" }'),
            "the experiment must be one of .*; got 'xyz'",
        ),
        ("quick = 3\n" + SMALL.partition("[quick]")[0], "quick must be a table; got 3"),
    ],
)
def test_a_mistake_in_a_file_is_named_in_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        parse_experiment("x", change)
    assert "\n" not in str(caught.value)


def test_an_experiment_cannot_be_changed_and_keeps_numbers_as_they_are_written():
    experiment = read_experiment("halo")
    with pytest.raises(ValueError, match="frozen"):
        experiment.seeds = [7]
    assert [type(radius) for radius in experiment.options["radii"]] == [int] * 8


def test_an_unknown_experiment_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"must be one of .*gmm.*; got 'nonsense'"):
        read_experiment("nonsense")


def test_a_number_of_seeds_replaces_the_files_own():
    assert parse_experiment("x", SMALL, n_seeds=4).seeds == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="at least 1"):
        parse_experiment("x", SMALL, n_seeds=0)


def test_tables_reach_into_steps_and_none_is_spelled_out():
    model = make_method(
        {"kind": "bacoun", "boundary": "none", "posterior": {"kind": "laplace", "n_draws": 7}}, 0
    )
    assert model.boundary is None
    assert type(model.posterior).__name__ == "Laplace"
    assert model.posterior.n_draws == 7
    assert flattened({"a": {"kind": "k", "b": {"c": "none", "d": 1}}}) == {
        "a": "k",
        "a__b__c": None,
        "a__b__d": 1,
    }


def test_a_preset_is_the_papers_with_changes_on_top():
    model = make_method({"kind": "bacoun", "preset": "wine", "features": {"epochs": 3}}, 0)
    assert model.features.epochs == 3
    assert model.features.hidden == (64, 64, 64, 64)
    assert model.boundary.radii == (5.0, 5.1)
