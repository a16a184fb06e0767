"""The three steps by name: how a name becomes an object, and how a step is fitted."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor, nn

from bacoun import boundary, features, posterior
from bacoun.files.checkpoint import Checkpoint
from bacoun.protocols import FeatureMap

STEPS: dict[str, dict[str, Any]] = {
    "boundary": boundary.KINDS,
    "features": features.KINDS,
    "posterior": posterior.KINDS,
}

_NEEDED = {  # arguments that a step cannot ignore
    "sample_weight": "rows or classes are weighted",
    "all_rows": "there are more rows than fit into memory",
}

VERBS = {"boundary": "sample", "features": "transform", "posterior": "predict_proba_samples"}


def make_step(name: str, value: Any) -> Any:
    """The step itself, from its name or a module, with its default settings."""
    if name == "features" and isinstance(value, nn.Module) and not isinstance(value, FeatureMap):
        return features.LearnedFeatures(body=value)
    if isinstance(value, str) and value in STEPS[name]:
        return STEPS[name][value]()
    verb = VERBS[name]
    fits = hasattr(value, "fit") and hasattr(value, verb)
    if not (fits or (name == "boundary" and value is None)):
        raise ValueError(
            f"{name} must be one of {sorted(STEPS[name])} or an object with fit and {verb}; got "
            f"{value!r}."
        )
    return value


def fit_step(
    name: str,
    step: Any,
    *data: Tensor,
    generator: torch.Generator,
    checkpoint: Checkpoint | None = None,
    **offered: Any,
) -> Any:
    """Fit a step, or load it from a checkpoint in which it was finished.

    Parameters
    ----------
    offered
        More arguments, such as a progress callback, passed on if the step's `fit` takes them.
    """
    saved = None if checkpoint is None else checkpoint.load(name)
    if saved is not None and hasattr(step, "set_state"):
        generator.set_state(saved["generator"])
        return step.set_state(saved["state"])
    offered |= {"checkpoint": checkpoint}
    extra = {key: value for key, value in offered.items() if has_fit_parameter(step, key)}
    for needed, when in _NEEDED.items():
        if needed in offered.keys() - extra.keys():
            raise ValueError(
                f"{name} must take {needed} in fit if {when}; {type(step).__name__} does not. Use "
                "another step, or do without."
            )
    step = step.fit(*data, generator=generator, **extra)
    if checkpoint is not None and hasattr(step, "get_state"):
        state = {"state": step.get_state(), "generator": generator.get_state()}
        checkpoint.save(name, state)
    return step
