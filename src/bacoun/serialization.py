"""A fitted classifier <-> nested plain values and tensors, for `files.model_folder`."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from bacoun.files.model_folder import plain
from bacoun.files.persistence import from_state, to_state
from bacoun.prediction import FeatureExtractor
from bacoun.steps import STEPS
from bacoun.uncertainty import Doubt

if TYPE_CHECKING:
    from bacoun.classifier import BaCOUnClassifier

State = dict[str, Any]
Classifier = TypeVar("Classifier", bound="BaCOUnClassifier")

_NUMBERS = ("ood_prior", "n_boundary", "contamination", "n_jobs")
_SETTINGS = (*_NUMBERS, "categorical_features", "standardize")
_SHAPE = ("n_features_in_", "image_shape_", "n_categories_")
_FITTED = (*_SHAPE, "mean_", "scale_", "outliers_", "set_scores_")


def pack_classifier(model: "BaCOUnClassifier") -> State:
    """Everything that `unpack_classifier` needs to rebuild a fitted classifier."""
    check_is_fitted(model)
    seed = model.random_state if isinstance(model.random_state, int) else None
    settings = {name: plain(getattr(model, name)) for name in _SETTINGS}
    weight = model.class_weight  # by label, of which JSON would make text
    settings["class_weight"] = (
        plain(list(weight.items())) if isinstance(weight, Mapping) else weight
    )
    return {
        "bacoun": version("bacoun"),
        "settings": settings | {"random_state": seed},
        "classes": {"dtype": model.classes_.dtype.str, "values": model.classes_.tolist()},
        "fitted": {name: vars(model)[name] for name in _FITTED if name in vars(model)},
        "feature_names_in": list(vars(model).get("feature_names_in_", [])) or None,
        "doubt": to_state(model.doubt_),
        "steps": {name: pack_step(name, vars(model)[f"{name}_"]) for name in STEPS},
    }


def unpack_classifier(
    kind: type[Classifier], state: State, *, body: nn.Module | None = None, device: str = "cpu"
) -> Classifier:
    """Undo `pack_classifier`, as an object of a class, on the device that the tensors are on.

    `body` stands in for a module of the user's own, whose code is not saved.
    """
    settings = dict(state["settings"])
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(settings["class_weight"])
    model = kind(**settings, device=device)
    model.classes_ = np.array(state["classes"]["values"], dtype=state["classes"]["dtype"])
    for name, value in state["fitted"].items():
        array = value.cpu().numpy() if isinstance(value, Tensor) else value
        setattr(model, name, _as_tuple(array) if name == "image_shape_" else array)
    if state["feature_names_in"] is not None:
        model.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
    for name in STEPS:
        step = unpack_step(name, state["steps"][name], body)
        setattr(model, f"{name}_", step)
        setattr(model, name, None if step is None else clone(step))
    model.doubt_ = None if state["doubt"] is None else from_state(Doubt, state["doubt"])
    return model


def pack_step(name: str, step: Any) -> State | None:
    """A fitted built-in step as plain values and tensors."""
    if step is None:
        return None
    kind = _kind_of(name, step)
    if kind is None:
        raise ValueError(
            f"{name} must be one of {sorted(STEPS[name])} to be saved; got {type(step).__name__}. "
            "Save a model with steps of your own by joblib.dump."
        )
    # Nested settings have names such as shell__epochs; the object they belong to is one of `parts`.
    settings = step.get_params()
    objects = [key for key, value in settings.items() if isinstance(value, BaseEstimator)]
    parts = {key: _kind_of(name, settings.pop(key)) for key in objects}
    if isinstance(settings.get("body"), nn.Module):
        settings["body"] = None
    state = plain(step.get_state())
    return {"kind": kind, "parts": parts, "settings": plain(settings), "state": state}


def pack_extractor(extractor: FeatureExtractor) -> State:
    """A feature extractor whose feature map is a built-in step, as plain values and tensors."""
    feature_map = pack_step("features", extractor.feature_map)
    return {"mean": extractor.mean, "scale": extractor.scale, "feature_map": feature_map}


def unpack_extractor(state: State) -> FeatureExtractor:
    """Undo `pack_extractor`."""
    mean, scale = (state[name].numpy() for name in ("mean", "scale"))
    return FeatureExtractor(mean, scale, unpack_step("features", state["feature_map"], None))


def unpack_step(name: str, packed: State | None, body: nn.Module | None) -> Any:
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
    parts = {key: STEPS[name][kind]() for key, kind in packed["parts"].items()}
    step = STEPS[name][packed["kind"]]().set_params(**parts).set_params(**settings)
    try:
        return step.set_state(packed["state"])
    except RuntimeError as error:
        if not isinstance(settings.get("body"), nn.Module):
            raise
        raise ValueError(
            "body must be built like the one the model was fitted with; its weights have other "
            "names or shapes. Pass the same architecture."
        ) from error


def _kind_of(name: str, step: Any) -> str | None:
    """The name of a built-in step among those called `name`; None if it is not one."""
    return next((kind for kind, known in STEPS[name].items() if type(step) is known), None)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
