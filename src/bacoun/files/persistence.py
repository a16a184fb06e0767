"""The one way to persist: fitted objects <-> nested plain values, arrays and tensors.

`model_folder` writes those to a folder. A dataclass needs no method for it: its fields and their
types say everything. A fitted step lists its attributes: `SavesAttributes`.
"""

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import nn

T = TypeVar("T")

_NOT_FINITE = "$float"  # JSON has no infinity


class SavesAttributes:
    """A fitted object that is saved as some of its attributes; the settings are saved elsewhere."""

    _saved: ClassVar[tuple[str, ...]]
    """Names of the attributes; those that were not set are left out."""

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values from which `set_state` rebuilds the fitted object."""
        return {name: to_state(vars(self)[name]) for name in self._saved if name in vars(self)}

    def set_state(self, state: dict[str, Any]) -> Self:
        """Undo `get_state` on an object of the same settings."""
        with torch.random.fork_rng(devices=[]):  # the weights of new modules are replaced
            for name in (name for name in self._saved if name in state):
                setattr(self, name, _filled(self._empty(name, state[name]), state[name]))
        return self

    def _empty(self, name: str, state: Any) -> Any:
        """The dataclass, or a new object, that an attribute is; None if its state says all.

        Asked in the order of `_saved`, so that it may depend on attributes before this one.
        """
        return None


def _filled(empty: Any, state: Any) -> Any:
    if empty is None or state is None:
        return _restored(object, state)
    if isinstance(empty, list):
        return [_filled(*pair) for pair in zip(empty, state, strict=True)]
    if isinstance(empty, nn.Module):
        empty.load_state_dict(state)
        return empty.to(next(iter(state.values())).device).eval()
    return from_state(empty, state) if isinstance(empty, type) else empty.set_state(state)


def to_state(value: Any) -> Any:
    """A fitted object, or a container of such, as dicts, lists, plain values and tensors."""
    if isinstance(value, SavesAttributes):
        return value.get_state()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_state(getattr(value, field.name)) for field in _stored(value)}
    if isinstance(value, nn.Module):
        return dict(value.state_dict())
    if isinstance(value, Mapping):
        return {str(key): to_state(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_state(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {_NOT_FINITE: str(value)}
    return value


def from_state(kind: type[T], state: Any) -> T:
    """Undo `to_state`; what does not fit `kind` raises a ValueError that names the place.

    `kind` is a dataclass, or what a field of one may be: plain values, tuples, lists, mappings,
    arrays, tensors, other dataclasses, or None.
    """
    try:
        return _restored(kind, state)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{kind.__name__} was not stored completely: {error}.") from error


def _stored(kind: Any) -> list[Any]:
    return [field for field in fields(kind) if field.init]


def _restored(hint: Any, state: Any) -> Any:
    if isinstance(state, dict) and state.keys() == {_NOT_FINITE}:
        return float(state[_NOT_FINITE])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        if state is None:
            return None
        candidates = [kind for kind in arguments if kind is not type(None)]
        return _restored(candidates[0], state) if len(candidates) == 1 else state
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        names = [field.name for field in _stored(hint)]
        return hint(**{name: _restored(hints[name], state[name]) for name in names})
    if origin is tuple:
        is_uniform = len(arguments) == 2 and arguments[1] is Ellipsis
        kinds = [arguments[0]] * len(state) if is_uniform else arguments
        return tuple(_restored(kind, item) for kind, item in zip(kinds, state, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_item = arguments
        keys = map(of_key, state) if of_key in (int, float) else state  # JSON knows text only
        return {
            key: _restored(of_item, item) for key, item in zip(keys, state.values(), strict=True)
        }
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return [_restored(arguments[0], item) for item in state]
    if hint is np.ndarray and not isinstance(state, np.ndarray):
        return state.cpu().numpy()  # files hold tensors
    return state
