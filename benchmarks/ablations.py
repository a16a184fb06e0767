"""What decides quality: variants of our default on the development tables; extends ablations.json.

    python -m benchmarks ablations

Each variant changes one setting and is fitted to the same rows as the default, on the cases of
`benchmarks.ood` with `TABLES`, four of its `DEVELOPMENT`, with one seed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bacoun import BaCOUnClassifier
from bacoun.comparison.cases import FAR_SHIFTS
from bacoun.comparison.methods import OURS, fit_bacoun
from bacoun.comparison.ranking import rank
from bacoun.comparison.run import measure, quality_table, shift_table
from benchmarks import ood
from benchmarks import record as records
from benchmarks.record import Record, markdown_table, rich_table

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "numpy", "scikit-learn")
SEED = 0
TABLES = ("german", "penguins", "segment", "sklearn-wine")

VARIANTS: dict[str, dict[str, Any]] = {
    OURS: {},
    "without doubt": {"ood_prior": 0.0},
    "doubt, prior 0.1": {"ood_prior": 0.1},
    "without edge points": {"boundary": None, "ood_prior": 0.0},
    "edge points not learned from": {"features__boundary_weight": 0.0},
    "edge weight 1": {"features__boundary_weight": 1.0},
    "edge gradient 1": {"features__boundary_gradient": 1.0},
    "300 edge points": {"n_boundary": 300},
    "5000 edge points": {"n_boundary": 5000},
    "shell around 90 %": {"boundary__shell__mass": 0.9},
    "shell around 99.9 %": {"boundary__shell__mass": 0.999},
    "one flow for all classes": {"boundary__shell__per_class": False},
    "flows without noise": {"boundary__shell__jitter": 0.0},
    "flows with noise 0.3": {"boundary__shell__jitter": 0.3},
    "plain network (learned)": {"features": "learned"},
    "without trees": {"features__n_trees": 0},
    "3 members": {"features__n_members": 3},
    "8 members": {"features__n_members": 8},
    "hidden (128, 32)": {"features__hidden": (128, 32)},
    "hidden (32, 8)": {"features__hidden": (32, 8)},
    "4 bins": {"features__n_bins": 4},
    "24 bins": {"features__n_bins": 24},
    "prior scale 0.1": {"posterior__prior_scale": 0.1},
    "prior scale 1": {"posterior__prior_scale": 1.0},
    "Laplace": {"posterior": "laplace"},
}


def make(settings: dict[str, Any], random_state: int) -> BaCOUnClassifier:
    """The default with other settings."""
    named = {name: value for name, value in settings.items() if "__" not in name}
    inner = {name: value for name, value in settings.items() if "__" in name}
    return BaCOUnClassifier(random_state=random_state, **named).set_params(**inner)


def tasks() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every run by its name, "case/seed/variant"; all variants of a case before the next."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for name, make_case in ood.cases().items():
        if name.split(",")[0] in TABLES:
            for variant, settings in VARIANTS.items():
                fit = partial(fit_bacoun, partial(make, settings), variant)
                found[f"{name}/{SEED}/{variant.replace('/', '-')}"] = partial(_run, make_case, fit)
    return found


def _run(make_case: Callable[[int], Any], fit: Callable[..., Any]) -> dict[str, Any]:
    return measure(make_case(SEED), fit, SEED)


def main() -> None:
    """Measure what the record lacks, and print it."""
    record = records.resume(RECORD, tasks(), LIBRARIES)
    Console(width=130).print(rich_table("variants of the default", *variant_rows(record)))


def variant_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: means of each variant, and whether its AUROC differs from the default's."""
    areas, risks = shift_table(record, "auroc"), shift_table(record, "aurc")
    losses, quality = quality_table(record, "log loss"), quality_table(record, "accuracy")
    seconds = quality_table(record, "fit seconds")
    near = areas[[shift not in FAR_SHIFTS for _, shift in areas.index]]
    ranked = rank(areas, OURS, higher_is_better=True)
    rows = []
    for name in VARIANTS:
        if name in areas:
            p = "" if name == OURS else f"{ranked.wilcoxon[name]:.2g}"
            rows.append(
                [
                    name,
                    f"{near[name].mean():.4f}",
                    f"{areas.drop(near.index)[name].mean():.4f}",
                    p,
                    f"{risks[name].mean():.4f}",
                    f"{quality[name].mean():.4f}",
                    f"{losses[name].mean():.4f}",
                    f"{seconds[name].mean():.1f}",
                ]
            )
    heads = ["variant", "AUROC", "far", "p", "AURC", "accuracy", "log loss", "fit s"]
    return heads, rows


def markdown(record: Record) -> str:
    """The variants as Markdown."""
    n_shifts = len(shift_table(record, "auroc"))
    return f"Means over {n_shifts} shifts:\n\n{markdown_table(*variant_rows(record))}\n"
