"""From the settings of a method in a TOML file to a classifier."""

from __future__ import annotations

from typing import Any

from bacoun.baselines import KINDS as BASELINES
from bacoun.classifier import BaCOUnClassifier
from reproduction.schema import Table

KINDS: dict[str, Any] = {"bacoun": BaCOUnClassifier, **BASELINES}


def make_method(settings: Table, seed: int) -> Any:
    """An unfitted classifier from `kind`, optionally `preset`, and its settings.

    A setting that is a table reaches into a step: `features = { hidden = [64, 64] }`; its `kind`,
    if there is one, chooses the step. Without one, features are "learned".
    """
    settings = dict(settings)
    kind, preset = settings.pop("kind"), settings.pop("preset", None)
    if kind not in KINDS:
        raise ValueError(f"the kind of a method must be one of {sorted(KINDS)}; got {kind!r}.")
    model = KINDS[kind]() if preset is None else BaCOUnClassifier.paper(preset)
    if isinstance(settings.get("features"), dict) and getattr(model, "features", None) == "auto":
        model.features = "learned"  # unless the table names another kind
    return model.set_params(**flattened(settings), random_state=seed)


def flattened(settings: Table) -> Table:
    """Nested settings under scikit-learn's names, such as `features__hidden`."""
    flat: Table = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            inner = flattened(value)
            flat |= {name if key == "kind" else f"{name}__{key}": inner[key] for key in inner}
        else:
            flat[name] = None if value == "none" else value  # TOML has no null
    return flat
