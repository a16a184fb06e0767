"""Nested settings such as `boundary__shell__epochs`, also of parts given by name or default."""

from collections.abc import Callable
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator, clone


class NestedSettings(BaseEstimator):
    """scikit-learn's nested settings, for parts that are not given as objects too."""

    _default: ClassVar[tuple[str, Callable[[], Any]]]
    """A setting, and what makes the part that it stands for if it is None."""

    def _default_part(self, name: str, value: Any) -> Any:
        """A new object that the setting `name` stands for; None if `value` is the part itself."""
        setting, make = self._default
        return make() if name == setting and value is None else None

    def _part(self, name: str) -> Any:
        """A fresh copy of the part, to be fitted."""
        part = self._default_part(name, getattr(self, name))
        return clone(getattr(self, name), safe=False) if part is None else part

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Settings by name; `deep` lists those of the parts too, such as `boundary__residual`."""
        params: dict[str, Any] = super().get_params(deep=deep)
        for name, value in list(params.items()) if deep else []:
            part = self._default_part(name, value)
            if part is not None:
                params |= {f"{name}__{key}": inner for key, inner in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change settings; a part becomes an object when one of its own settings is changed."""
        own = super().get_params(deep=False)
        for nested in [key for key in params if "__" in key]:
            name = nested.partition("__")[0]
            value = params.get(name, own.get(name))
            part = self._default_part(name, value)
            if part is None and value is None and name in own:
                raise ValueError(f"{nested} needs a {name}; it is None. Set {name} as well.")
            if part is not None:
                params[name] = part
        super().set_params(**params)
        return self
