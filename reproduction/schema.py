"""An experiment is a TOML file: what to fit, on which data, how often, and what was published.

title, study, seeds      what is measured, and how often
[dataset]                kind and settings of a data set
[options]                settings of the study
[methods.NAME]           kind, preset and settings of a classifier, or `record_of`: another
                         experiment and its method, whose records are shared
[published.NAME]         the paper's numbers, printed beside ours
columns                  which numbers the table shows
further_columns          those of a second table
[quick]                  merged on top of all that for a run of seconds
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    model_validator,
    with_config,
)
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

Table = dict[str, Any]

_ORDER = (  # of the paper
    "pathology",
    "readings-gmm",
    "readings-moons",
    "readings-wine",
    "gmm",
    "gmm-printed",
    "moons",
    "wine",
    "outliers",
    "architectures",
    "width",
    "attack",
    "gp-limit",
    "diagnosis",
    "halo",
    "left-out-choice",
    "left-out",
    "log-loss",
    "disentanglement",
    "ood-calibration",
    "choice",
    "shifts",
    "mnist",
    "mnist-full",
    "mnist-examples",
    "mnist-rotations",
    "mnist-noise",
    "mnist-morph",
)


def _with_kind(table: Table) -> Table:
    if not isinstance(table.get("kind"), str):
        raise PydanticCustomError("no_kind", "must be a table with a kind")
    return table


KindTable = Annotated[Table, AfterValidator(_with_kind)]
_STRICT = ConfigDict(extra="forbid", strict=True)
Number = int | float  # a union, so that 8 stays 8


@with_config(_STRICT)
class Grid(TypedDict):
    """Corners and resolution of a map of the plane."""

    low: list[Number]
    high: list[Number]
    resolution: int


@with_config(_STRICT)
class Doubt(TypedDict):
    """Powers and prior probabilities of doubt, measured on one fit."""

    power: list[Number]
    ood_prior: list[Number]


@with_config(_STRICT)
class Options(TypedDict, total=False):
    """Settings of a study; each study takes some of them."""

    between: list[list[int]]
    digits: list[int]
    doubt: Doubt
    epochs: int
    kept: list[int]
    map: Grid
    n_images: int
    n_points: int
    n_steps: int
    n_vae: int
    priors: list[Number]
    radii: list[Number]
    rays: bool
    shifts: dict[str, Any]
    split: bool


class _File(BaseModel):
    """What a TOML file holds, apart from [quick]."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    title: str
    study: str
    seeds: list[int]
    columns: list[str]
    further_columns: list[str] = []
    dataset: KindTable
    methods: dict[str, KindTable]
    options: Options = {}
    published: dict[str, Table] = {}

    @model_validator(mode="after")
    def _publishes_methods(self) -> Self:
        astray = sorted(set(self.published) - set(self.methods))
        if astray:
            raise PydanticCustomError(
                "no_method",
                "published must name methods of the file",
                {"found": ", ".join(astray)},
            )
        return self


class Experiment(_File):
    """One of the paper's tables or figures, or one of its claims, as settings."""

    name: str
    quick: bool
    record_of: dict[str, tuple[str, str]] = {}

    def origin(self, method: str) -> tuple[Experiment, str]:
        """The experiment that runs a method, and the method's name there."""
        if method not in self.record_of:
            return self, method
        experiment, own_name = self.record_of[method]
        return read_experiment(experiment, quick=self.quick), own_name


_KEYS: dict[tuple[str, ...], Iterable[str]] = {
    (): _File.model_fields,
    ("options",): Options.__annotations__,
    ("options", "doubt"): Doubt.__annotations__,
    ("options", "map"): Grid.__annotations__,
}


def names() -> list[str]:
    """The experiments there are, in the order of the paper."""
    folder = files("reproduction") / "experiments"
    found = {item.name.removesuffix(".toml") for item in folder.iterdir()}
    return [name for name in _ORDER if name in found]


def read_experiment(name: str, *, quick: bool = False, n_seeds: int | None = None) -> Experiment:
    """The named experiment; `quick` merges its overlay, `n_seeds` takes seeds 0, 1, ..."""
    if name not in names():
        raise ValueError(f"the experiment must be one of {', '.join(names())}; got {name!r}.")
    text = (files("reproduction") / "experiments" / f"{name}.toml").read_text()
    return parse_experiment(name, text, quick=quick, n_seeds=n_seeds)


def parse_experiment(
    name: str, text: str, *, quick: bool = False, n_seeds: int | None = None
) -> Experiment:
    """An experiment from the text of its file.

    Raises
    ------
    ValueError
        In one sentence, each key that is unknown, missing or of the wrong type.
    """
    table = tomllib.loads(text)
    overlay = table.pop("quick", {})
    if not isinstance(overlay, dict):
        raise ValueError(f"{name}.toml: quick must be a table; got {overlay!r}.")
    # Both variants are checked, so that a full run notices a mistake in [quick] as well.
    variants = {}
    for is_quick, own in {False: table, True: merged(table, overlay)}.items():
        place = f"{name}.toml with [quick]" if is_quick else f"{name}.toml"
        whole, record_of = _with_shared_methods(place, own, is_quick)
        variants[is_quick] = dict(_checked(place, whole)) | {"record_of": record_of}
    given = variants[quick]
    if n_seeds is not None:
        if n_seeds < 1:
            raise ValueError(f"the number of seeds must be at least 1; got {n_seeds}.")
        given["seeds"] = list(range(n_seeds))
    return Experiment(name=name, quick=quick, **given)


def _with_shared_methods(
    place: str, table: Table, quick: bool
) -> tuple[Table, dict[str, tuple[str, str]]]:
    """The table with the settings of each shared method, and where the method is from."""
    methods, record_of = dict(table.get("methods", {})), {}
    for name, settings in methods.items():
        match settings:
            case {"record_of": {"experiment": str(other), "method": str(method), **rest}} if (
                len(settings) == 1 and not rest and method in read_experiment(other).methods
            ):
                methods[name] = read_experiment(other, quick=quick).methods[method]
                record_of[name] = (other, method)
            case {"record_of": _}:
                raise ValueError(
                    f"{place}: methods.{name} must have nothing but record_of with the name of "
                    f"another experiment and of one of its methods; got {settings!r}."
                )
    return table | {"methods": methods}, record_of


def _checked(place: str, table: Table) -> _File:
    try:
        return _File.model_validate(table)
    except ValidationError as error:
        problems = ", and ".join(_problem(dict(each)) for each in error.errors())
        raise ValueError(f"{place}: {problems}.") from error


def _problem(error: Table) -> str:
    """What was expected and what came, from one of pydantic's error records."""
    where = ".".join(map(str, error["loc"]))
    match error["type"]:
        case "missing":
            return f"{where} must be given; it is missing"
        case "extra_forbidden":
            known = _KEYS[error["loc"][:-1]]
            return f"the key {where} must be one of {', '.join(sorted(known))}; it is unknown"
        case "no_method":
            return f"{error['msg']}; got {error['ctx']['found']}"
        case "no_kind":
            return f"{where} {error['msg']}; got {error['input']!r}"
        case _:
            expected = error["msg"].removeprefix("Input should ")
            return f"{where} must {expected}; got {error['input']!r}"


def missing_files(experiment: Experiment) -> list[str]:
    """Names of the data sets that the experiment needs and that are not on this machine."""
    if experiment.dataset["kind"] not in ("mnist", "development-images", "tables"):
        return []  # the others are generated, or come with the package
    # Imported late: torch comes along, which --help does not need.
    from reproduction.datasets.catalog import SOURCES
    from reproduction.datasets.images import OTHERS
    from reproduction.datasets.sources import locate
    from reproduction.datasets.tables import source_of

    if experiment.dataset["kind"] == "mnist":
        needed = ["mnist", *experiment.dataset.get("others", OTHERS)]
    elif experiment.dataset["kind"] == "tables":
        tables = [*experiment.dataset.get("left_out", []), *experiment.dataset.get("tables", [])]
        needed = sorted({source for name in tables if (source := source_of(name))})
        needed += [name for name in experiment.dataset.get("images", []) if name in SOURCES]
    else:
        needed = [name for name in experiment.dataset["sets"] if name in SOURCES]
    return [name for name in needed if locate(name) is None]


def merged(below: Table, above: Table) -> Table:
    """Two nested tables in one; values of `above` take precedence."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result
