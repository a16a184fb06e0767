"""The three steps by name: how a name becomes an object, and how a step is fitted."""

from __future__ import annotations

from typing import Any, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor, nn

from bacoun import boundary, features, posterior
from bacoun.checkpoint import Checkpoint
from bacoun.protocols import FeatureMap

STEPS: dict[str, dict[str, Any]] = {
    "boundary": boundary.KINDS,
    "features": features.KINDS,
    "posterior": posterior.KINDS,
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


class NamedSteps(BaseEstimator):
    """Settings that reach into steps given by name, as scikit-learn's do into objects."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings; `deep` lists those of the steps too (`boundary__radii`), named or given."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name in STEPS if deep else ():
            if isinstance(params.get(name), str) and params[name] in STEPS[name]:
                nested = make_step(name, params[name]).get_params()
                params |= {f"{name}__{key}": value for key, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; a step given by name becomes an object when one of its own is set."""
        for name in STEPS:
            value = params.get(name, getattr(self, name))
            nested = next((key for key in params if key.startswith(f"{name}__")), None)
            if nested is not None and value is None:
                raise ValueError(f"{nested} needs a {name}; it is None. Set {name} as well.")
            if nested is not None and isinstance(value, str):
                params[name] = make_step(name, value)
        super().set_params(**params)
        return self


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
    step = step.fit(*data, generator=generator, **extra)
    if checkpoint is not None and hasattr(step, "get_state"):
        state = {"state": step.get_state(), "generator": generator.get_state()}
        checkpoint.save(name, state)
    return step
