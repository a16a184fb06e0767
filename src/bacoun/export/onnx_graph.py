"""Graph: an ONNX graph, built operator by operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from bacoun.features.forest import Forest

_TREES = "ai.onnx.ml"  # the domain of operators on trees
_OPSET, _IR_VERSION = 18, 8  # of 2022, so that runtimes need not be new


class Graph:
    """Nodes and constants of a graph, each value known by its name."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise ImportError("export_onnx needs onnx: pip install 'bacoun[onnx]'.") from error
        self._onnx: Any = onnx
        self.float, self.double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
        self.integer = onnx.TensorProto.INT64
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Append an operation; an input is the name of a value, or a constant array."""
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        return self._append(operator, names, attributes)

    def add_trees(self, value: str, forest: Forest) -> str:
        """Append the sum (N, K) of the class frequencies in the leaves that rows (N, D) reach."""
        nodes = forest.node_table()
        is_leaf = nodes["is_leaf"]
        leaves = np.flatnonzero(is_leaf)
        n_classes = nodes["values"].shape[1]
        at_leaf = {key: np.repeat(nodes[key][leaves], n_classes) for key in ("tree", "node")}
        attributes = {
            "n_targets": n_classes,
            "nodes_treeids": nodes["tree"],
            "nodes_nodeids": nodes["node"],
            "nodes_featureids": nodes["feature"],
            "nodes_values": np.where(is_leaf, 0, nodes["threshold"]).astype(np.float32),
            "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
            "nodes_truenodeids": nodes["left"],
            "nodes_falsenodeids": np.where(is_leaf, 0, nodes["left"] + 1),
            "target_treeids": at_leaf["tree"],
            "target_nodeids": at_leaf["node"],
            "target_ids": np.tile(np.arange(n_classes), len(leaves)),
            "target_weights": nodes["values"][leaves].ravel(),
        }
        lists = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in attributes.items()}
        return self._append("TreeEnsembleRegressor", [value], lists | {"domain": _TREES})

    def _append(self, operator: str, names: list[str], attributes: dict[str, Any]) -> str:
        output = f"{operator.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, names, [output], **attributes))
        return output

    def reduce(self, operator: str, value: str) -> str:
        """Append "Sum", "Max" or the like over axis 1, which stays and has length 1."""
        return self.add(f"Reduce{operator}", value, np.array([1]), keepdims=1)

    def _constant(self, value: Any) -> str:
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        name = f"constant_{len(self._constants)}"
        tensor = self._onnx.numpy_helper.from_array(np.asarray(array, order="C"), name)
        self._constants.append(tensor)
        return name

    def to_model(
        self,
        inputs: dict[str, list[str | int]],
        outputs: dict[str, tuple[str, list[Any]]],
        metadata: dict[str, str],
    ) -> bytes:
        """The finished model; `outputs` maps a name to the value it stands for and its shape."""
        helper = self._onnx.helper
        nodes = self._nodes + [
            helper.make_node("Identity", [value], [name]) for name, (value, _) in outputs.items()
        ]
        described = [(name, shape) for name, (_, shape) in outputs.items()]
        graph = helper.make_graph(
            nodes,
            "bacoun",
            [helper.make_tensor_value_info(n, self.double, shape) for n, shape in inputs.items()],
            [helper.make_tensor_value_info(n, self.float, shape) for n, shape in described],
            self._constants,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*each) for each in (("", _OPSET), (_TREES, 3))],
            ir_version=_IR_VERSION,
            producer_name="bacoun",
            producer_version=metadata["bacoun_version"],
        )
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content
