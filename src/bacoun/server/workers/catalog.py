"""Which models can be named: those on the command line, and those inside its folders, as of now."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Self

from bacoun.files.identity import is_model, stamp_of
from bacoun.server.jobs import Model
from bacoun.web.errors import ApiError


@dataclass
class Catalog:
    """Models by name."""

    models: list[Path] = field(default_factory=list)
    # Whose subfolders are models; looked at for every request.
    folders: list[Path] = field(default_factory=list)
    _last_seen: dict[str, Model] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Self:
        """Sort the arguments of the command line; refuse what is neither."""
        catalog = cls()
        for path in paths:
            if not path.is_dir():
                raise FileNotFoundError(
                    f"models must be folders, or folders of them; '{path}' is neither. Fit one "
                    "with bacoun fit."
                )
            (catalog.models if is_model(path) else catalog.folders).append(path.resolve())
        for folder in catalog.folders:
            if not _models_inside(folder):
                raise FileNotFoundError(
                    f"'{folder}' must hold models; it has none. Fit one into it with bacoun fit."
                )
        names = catalog.names()
        for name, following in pairwise(names):
            if name == following:
                raise ValueError(
                    f"models must have different names; there are two called '{name}'. Rename one."
                )
        return catalog

    def _paths(self) -> list[Path]:
        return [*self.models, *(path for each in self.folders for path in _models_inside(each))]

    def names(self) -> list[str]:
        """Names of all models, sorted."""
        return sorted(path.name for path in self._paths())

    def __getitem__(self, name: str) -> Model:
        path = self._path_of(name)
        stamp = None if path is None else stamp_of(path)
        if path is not None and stamp is not None:
            self._last_seen[name] = Model(name, str(path), stamp)
        elif name not in self._last_seen or not self._is_being_replaced(name):
            self._last_seen.pop(name, None)
            known = ", ".join(self.names()[:8]) or "none"
            raise ApiError(404, f"there is no model of that name; there are: {known}.")
        return self._last_seen[name]

    def _path_of(self, name: str) -> Path | None:
        """The folder of a name, which is compared, never joined to a path: "../x" names nothing."""
        if name in self._last_seen:
            return Path(self._last_seen[name].path)
        return next((path for path in self._paths() if path.name == name), None)

    def _is_being_replaced(self, name: str) -> bool:
        """Whether a new version is about to be renamed into place; see `bacoun.files.atomic`."""
        folder = Path(self._last_seen[name].path).parent
        return any(path.name.startswith(f".{name}.") for path in folder.glob(".*.tmp"))


def _models_inside(folder: Path) -> list[Path]:
    """Models in a folder; a link that leads out of it is not inside."""
    return [
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and path.resolve().parent == folder and is_model(path)
    ]
