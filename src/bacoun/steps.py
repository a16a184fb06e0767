"""The three steps by name: from a name to an object, and from a fitted object to a file."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor, nn

from bacoun import boundary, features, posterior
from bacoun.protocols import FeatureMap

STEPS: dict[str, dict[str, Any]] = {
    "boundary": boundary.KINDS,
    "features": features.KINDS,
    "posterior": posterior.KINDS,
}

VERBS = {"boundary": "sample", "features": "transform", "posterior": "predict_proba_samples"}


def fit_step(
    step: Any,
    *data: Tensor,
    generator: torch.Generator,
    **offered: Any,
) -> Any:
    """Fit a step; what is offered besides, such as a progress callback, if its `fit` takes it."""
    extra = {name: value for name, value in offered.items() if has_fit_parameter(step, name)}
    return step.fit(*data, generator=generator, **extra)


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


def settings_of(step: Any) -> dict[str, Any]:
    """Constructor arguments of a step; none if it is no scikit-learn estimator."""
    return step.get_params(deep=False) if hasattr(step, "get_params") else {}


def pack_step(name: str, step: Any) -> dict[str, Any] | None:
    """A fitted built-in step as plain values and tensors."""
    if step is None:
        return None
    for kind, built_in in STEPS[name].items():
        if type(step) is built_in:
            settings = plain(settings_of(step))
            if isinstance(settings.get("body"), nn.Module):
                settings["body"] = None
            return {"kind": kind, "settings": settings, "state": plain(step.get_state())}
    raise ValueError(
        f"{name} must be one of {sorted(STEPS[name])} to be saved; got {type(step).__name__}. "
        "Keep a model with steps of your own by joblib.dump."
    )


def unpack_step(name: str, packed: dict[str, Any] | None, body: nn.Module | None) -> Any:
    """Undo `pack_step`; `body` stands in for a module that files cannot hold."""
    if packed is None:
        return None
    settings = {key: _as_tuple(value) for key, value in packed["settings"].items()}
    if "body" in settings and settings["body"] is None:
        if body is None:
            raise ValueError(
                "body must be given: this model was fitted with a module of its own, and files "
                "hold only the weights. Use load(path, body=...)."
            )
        settings["body"] = body
    step = STEPS[name][packed["kind"]](**settings)
    if isinstance(settings.get("body"), nn.Module):
        try:
            return step.set_state(packed["state"])
        except RuntimeError as error:
            raise ValueError(
                "body must be built like the one the model was fitted with; its weights have other "
                "names or shapes. Pass the same architecture."
            ) from error
    return step.set_state(packed["state"])


def plain(value: Any) -> Any:
    """A value without NumPy, whose numbers a grid search leaves behind and JSON does not know."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # JSON has no tuples


def to_device(value: Any, device: str) -> Any:
    """Nested values with every tensor moved to `device`."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: to_device(item, device) for key, item in value.items()}
    return [to_device(item, device) for item in value] if isinstance(value, list) else value
