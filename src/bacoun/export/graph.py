"""Graph: an ONNX graph, built operator by operator."""

from dataclasses import dataclass, replace
from typing import Any

import torch

TREES = "ai.onnx.ml"  # the domain of operators on trees
_OPSETS, _IR_VERSION = {"": 18, TREES: 3}, 8  # of 2022, so that runtimes need not be new


@dataclass(frozen=True)
class Value:
    """A value of the graph, whose first axis are the rows."""

    name: str
    dtype: torch.dtype
    rank: int


class Graph:
    """Nodes and constants of a graph with one input, `X`: float64 of shape (N, n_inputs)."""

    def __init__(self, n_inputs: int) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError("export_onnx needs onnx: pip install 'bacoun[onnx]'.") from error
        self._onnx: Any = onnx
        self._n_inputs = n_inputs
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._stored: dict[Any, tuple[str, torch.Tensor]] = {}  # kept, so that addresses are unique
        self.rows = Value("X", torch.float64, 2)

    def example(self, n_rows: int) -> torch.Tensor:
        """Random rows (n_rows, n_inputs) of the type that the graph takes."""
        generator = torch.Generator().manual_seed(n_rows)
        size = (n_rows, self._n_inputs)
        return torch.rand(size, dtype=self.rows.dtype, generator=generator)

    def add(self, kind: str, *inputs: Any, like: Any, **attributes: Any) -> Value:
        """Append ONNX's operator `kind` of values and constants.

        The result has the type and rank of `like`, a value or a tensor.
        """
        output = f"{kind.lower()}_{len(self._nodes)}"
        names = [one.name if isinstance(one, Value) else self._constant(one) for one in inputs]
        self._nodes.append(self._onnx.helper.make_node(kind, names, [output], **attributes))
        rank = like.rank if isinstance(like, Value) else len(like.shape)
        return Value(output, like.dtype, rank)

    def cast(self, value: Any, dtype: torch.dtype) -> Any:
        """A value, a tensor or a number in another type."""
        if not isinstance(value, Value):
            return torch.as_tensor(value, dtype=dtype)
        if value.dtype == dtype:
            return value
        example = torch.zeros((), dtype=dtype).numpy()
        to = self._onnx.helper.np_dtype_to_tensor_dtype(example.dtype)
        return self.add("Cast", value, to=to, like=replace(value, dtype=dtype))

    def filled_like(self, value: Value, number: float, dtype: torch.dtype) -> Value:
        """The same number everywhere, in the shape of a value."""
        content = self._onnx.numpy_helper.from_array(torch.tensor([number], dtype=dtype).numpy())
        shape = self.add("Shape", value, like=Value("", torch.int64, 1))
        return self.add("ConstantOfShape", shape, value=content, like=replace(value, dtype=dtype))

    def _constant(self, value: Any) -> str:
        tensor = torch.as_tensor(value).detach()
        key = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        if key not in self._stored:
            self._stored[key] = self._new_constant(tensor.cpu().contiguous()), tensor
        return self._stored[key][0]

    def _new_constant(self, tensor: torch.Tensor) -> str:
        """Numbers that single precision has are stored in it."""
        small = tensor.float()
        if tensor.dtype == torch.float64 and tensor.numel() > 64 and bool((small == tensor).all()):
            like = Value(self._constant(small), torch.float32, tensor.ndim)
            name: str = self.cast(like, torch.float64).name
            return name
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(tensor.numpy(), name))
        return name

    def to_model(self, outputs: dict[str, Value], metadata: dict[str, str], width: int) -> bytes:
        """The finished model, with outputs (N,) or (N, width) in float32."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        nodes, described = list(self._nodes), []
        for name, value in outputs.items():
            nodes.append(helper.make_node("Identity", [value.name], [name]))
            shape = ["N", width][: value.rank]
            described.append(helper.make_tensor_value_info(name, types.FLOAT, shape))
        rows = helper.make_tensor_value_info(self.rows.name, types.DOUBLE, ["N", self._n_inputs])
        model = helper.make_model(
            helper.make_graph(nodes, "bacoun", [rows], described, self._constants),
            opset_imports=[helper.make_opsetid(*each) for each in _OPSETS.items()],
            ir_version=_IR_VERSION,
            producer_name="bacoun",
            producer_version=metadata["bacoun_version"],
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content
