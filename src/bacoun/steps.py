"""The three steps by name: how a name becomes an object, and how a step is fitted."""

from typing import Any

from torch import Tensor, nn

from bacoun import boundary, features, posterior
from bacoun.protocols import (
    BoundarySampler,
    FeatureMap,
    FitContext,
    HasHonored,
    HasState,
    LastLayer,
)

STEPS: dict[str, dict[str, Any]] = {
    "boundary": boundary.KINDS,
    "features": features.KINDS,
    "posterior": posterior.KINDS,
}

_PROTOCOLS: dict[str, tuple[type, str]] = {
    "boundary": (BoundarySampler, "sample"),
    "features": (FeatureMap, "transform"),
    "posterior": (LastLayer, "predict_proba_samples"),
}

_NEEDED = {  # fields of the context that a step cannot ignore
    "sample_weight": "rows or classes are weighted",
    "all_rows": "there are more rows than fit into memory",
}


def make_step(name: str, value: Any) -> Any:
    """The step itself, from its name or a module, with its default settings."""
    if name == "features" and isinstance(value, nn.Module) and not isinstance(value, FeatureMap):
        return features.LearnedFeatures(body=value)
    if isinstance(value, str) and value in STEPS[name]:
        return STEPS[name][value]()
    protocol, verb = _PROTOCOLS[name]
    if not (isinstance(value, protocol) or (name == "boundary" and value is None)):
        raise ValueError(
            f"{name} must be one of {sorted(STEPS[name])} or an object with fit and {verb}; got "
            f"{value!r}."
        )
    return value


def fit_step(name: str, step: Any, *data: Tensor, context: FitContext) -> Any:
    """Fit a step, or load it from the checkpoint in which it was finished."""
    checkpoint, generator = context.checkpoint, context.generator
    saved = None if checkpoint is None else checkpoint.load(name, data[0].device)
    if saved is not None and generator is not None and isinstance(step, HasState):
        generator.set_state(saved["generator"].cpu())
        return step.set_state(saved["state"])
    honored = step.honored if isinstance(step, HasHonored) else ()
    for field, when in _NEEDED.items():
        if getattr(context, field) is not None and field not in honored:
            raise ValueError(
                f"{name} must take {field} in fit if {when}; {type(step).__name__} does not. Use "
                "another step, or do without."
            )
    step = step.fit(*data, context)
    if checkpoint is not None and generator is not None and isinstance(step, HasState):
        checkpoint.save(name, {"state": step.get_state(), "generator": generator.get_state()})
    return step
