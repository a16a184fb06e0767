"""Torch's operators in ONNX: what torch runs becomes part of a graph, one operator at a time.

`torch.onnx.export` does the same for all of torch, but takes fifteen seconds for the smallest
model, needs two more packages, and fixes the number of rows where Python asks for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, partialmethod, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
)
from torch.utils._pytree import tree_leaves, tree_map

from bacoun.export.graph import TREES, Graph, Value
from bacoun.features.forest import Forest

_ROWS = object()  # stands for the number of rows, which a graph leaves open
_END = 2**62  # of a slice: all the rest
_CONSTANT = ("new_zeros", "new_ones")  # whatever the values of their argument are

_ELEMENTWISE = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"}
_ELEMENTWISE |= {"mm": "MatMul", "bmm": "MatMul", "minimum": "Min", "maximum": "Max"}
_ELEMENTWISE |= {"neg": "Neg", "abs": "Abs", "exp": "Exp", "log": "Log", "sqrt": "Sqrt"}
_ELEMENTWISE |= {"reciprocal": "Reciprocal", "round": "Round", "sigmoid": "Sigmoid"}
_ELEMENTWISE |= {"relu": "Relu", "bitwise_and": "And", "bitwise_or": "Or", "bitwise_not": "Not"}
_COMPARISONS = {"eq": "Equal", "gt": "Greater", "lt": "Less"}
_COMPARISONS |= {"ge": "GreaterOrEqual", "le": "LessOrEqual"}
_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "logsumexp": "ReduceLogSumExp"}
_REDUCTIONS |= {"amax": "ReduceMax", "amin": "ReduceMin"}


class _Recorder(TorchDispatchMode):
    """Records what torch runs: operators with their arguments, options and results."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any, Any, Any]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch's compiler is not used, and takes seconds to import

    def __torch_dispatch__(
        self, operator: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        result = operator(*arguments, **(options or {}))
        name = operator.overloadpacket.__name__
        self.calls.append((name, arguments, options or {}, result))
        return result


def run_as_one(name: str, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Run a function that is recorded, and then translated, as one operator of this name."""
    recorder = _get_current_dispatch_mode()
    with _disable_current_modes():
        result = function(*arguments)
    if isinstance(recorder, _Recorder):
        recorder.calls.append((name, arguments, {}, result))
    return result


def leaf_sums(points: Tensor, forest: Forest) -> Tensor:
    """Sums (N, K) of the class frequencies in the leaves that points (N, D) reach."""
    return embedding_bag(forest._leaves(points), forest.values_, mode="sum")


def add_function(graph: Graph, function: Callable[[Tensor], Sequence[Tensor]]) -> list[Value]:
    """Append a function of the rows of a graph, which are float64; return its results in float32.

    It runs on two rows and again on three: a size that differs is the number of rows.
    """
    rows, more_rows = graph.example(2), graph.example(3)
    function(rows)  # whatever is computed once is computed now
    with _Recorder() as two:
        results = function(rows)
    with _Recorder() as three:
        function(more_rows)
    values: dict[int, Value] = {id(rows): graph.rows}  # by the id of the tensor that they stand for
    columns: dict[int, tuple[int, int, int]] = {}  # part of which tensor a view is, and where
    for (name, *ours, result), (_, *theirs, _) in zip(two.calls, three.calls, strict=True):
        arguments, options = tree_map(partial(_in_graph, values), ours, theirs)
        is_value = (isinstance(one, Value) for one in tree_leaves([arguments, options]))
        if name in _CONSTANT or not any(is_value):
            continue
        if name == "copy_":
            whole, axis, place = columns[id(result)]
            values[whole] = _Operators(graph, values[whole]).with_part(
                values[whole], arguments[1], axis, place
            )
            continue
        if name == "select":
            columns[id(result)] = (id(ours[0][0]), *ours[0][1:])
        made = _translated(graph, name, result, arguments, options)
        pairs = zip(result, made, strict=False) if isinstance(made, list) else [(result, made)]
        values |= {id(tensor): value for tensor, value in pairs}
    return [graph.cast(values[id(result)], torch.float32) for result in results]


def _in_graph(values: dict[int, Value], ours: Any, theirs: Any) -> Any:
    """What an argument is in the graph; `ours` is that of two rows, `theirs` of three."""
    if isinstance(ours, Tensor):
        return values[id(ours)] if id(ours) in values else _constant(ours, theirs)
    return _ROWS if isinstance(ours, int) and ours != theirs else ours


def _constant(ours: Tensor, theirs: Tensor) -> Tensor:
    """What does not depend on the rows; of equal rows, the first, which stands for all."""
    sizes = zip(ours.shape, theirs.shape, strict=True)
    first = tuple(slice(None if n == other else 1) for n, other in sizes)
    if not torch.equal(ours[first], theirs[first]) or bool((ours != ours[first]).any()):
        raise NotImplementedError("numbers that are computed outside torch")
    return ours[first]


def _translated(graph: Graph, name: str, out: Any, arguments: Any, options: Any) -> Any:
    """The result of one call; `out` is its example."""
    plain = name.removesuffix("_")  # without "in place"
    if plain in _ELEMENTWISE:
        cast = [graph.cast(one, out.dtype) for one in arguments]
        return graph.add(_ELEMENTWISE[plain], *cast, like=out, **options)
    if name in _COMPARISONS:
        types = [one.dtype for one in arguments if isinstance(one, Value | Tensor)]
        cast = [graph.cast(one, reduce(torch.promote_types, types)) for one in arguments]
        return graph.add(_COMPARISONS[name], *cast, like=out)
    operators = _Operators(graph, out)
    if name in _REDUCTIONS:
        return operators.reduced(_REDUCTIONS[name], *arguments)
    translation = getattr(operators, name, None) or getattr(operators, plain, None)
    if translation is None:
        raise NotImplementedError(f"torch's {name}")
    return translation(*arguments, **options)


class _Operators:
    """Translations, each with the name and the arguments of torch's operator."""

    def __init__(self, graph: Graph, out: Any) -> None:
        self.graph, self.out = graph, out

    def add_node(self, kind: str, *inputs: Any, **attributes: Any) -> Value:
        """Append an operator of ONNX with a result like the one of torch's."""
        return self.graph.add(kind, *inputs, like=self.out, **attributes)

    def number(self, value: Any) -> Any:
        """A value or constant in the type of the result."""
        return self.graph.cast(value, self.out.dtype)

    def reduced(self, kind: str, value: Any, axes: Any, keepdim: bool = False) -> Value:
        """A sum or the like over some axes."""
        axes = list(axes) if isinstance(axes, list | tuple) else [axes]
        return self.add_node(kind, self.number(value), axes, keepdims=int(keepdim))

    # Arithmetic

    def rsub(self, value: Any, other: Any) -> Value:
        return self.add_node("Sub", self.number(other), self.number(value))

    def log1p(self, value: Value) -> Value:
        return self.add_node("Log", self.add_node("Add", value, self.number(1)))

    def addmm(self, offset: Any, left: Any, right: Any) -> Value:
        return self.add_node("Add", self.add_node("MatMul", left, right), offset)

    baddbmm = addmm

    def addcmul(self, offset: Any, left: Any, right: Any) -> Value:
        return self.add_node("Add", self.add_node("Mul", left, right), offset)

    def clamp(self, value: Any, low: Any = None, high: Any = None) -> Value:
        for kind, bound in (("Max", low), ("Min", high)):
            if bound is not None:
                value = self.add_node(kind, value, self.number(bound))
        return value

    clamp_min = clamp

    def leaky_relu(self, value: Value, slope: float = 0.01) -> Value:
        return self.add_node("LeakyRelu", value, alpha=slope)

    def _softmax(self, value: Value, axis: int, _: bool) -> Value:
        largest = self.add_node("ReduceMax", value, [axis], keepdims=1)
        below = self.graph.cast(self.add_node("Sub", value, largest), torch.float32)  # is faster
        return self.number(self.graph.add("Softmax", below, axis=axis, like=below))

    def linalg_vector_norm(
        self, value: Value, order: float, axes: Any, keepdim: bool = False, **_: Any
    ) -> Value:
        return self.add_node("Sqrt", self.reduced("ReduceSumSquare", value, axes, keepdim))

    def special_entr(self, value: Value) -> Value:
        logarithm = self.add_node("Log", self.clamp(value, torch.finfo(self.out.dtype).tiny))
        return self.add_node("Neg", self.add_node("Mul", value, logarithm))

    def where(self, condition: Any, *values: Any) -> Value:
        return self.add_node("Where", condition, *map(self.number, values))

    def nan_to_num(self, value: Value, nan: float, above: float, below: float) -> Value:
        truth = replace(value, dtype=torch.bool)
        value = self.where(self.graph.add("IsNaN", value, like=truth), nan, value)
        for number, is_above in ((above, 1), (below, 0)):
            sides = {"detect_positive": is_above, "detect_negative": 1 - is_above}
            is_infinite = self.graph.add("IsInf", value, like=truth, **sides)
            value = self.where(is_infinite, number, value)
        return value

    def searchsorted(self, cuts: Tensor, values: Value) -> Value:
        column = self.graph.add("Unsqueeze", values, [2], like=values)
        truth = replace(column, dtype=torch.bool)
        is_above = self.graph.add("Greater", column, cuts[:, None], like=truth)
        return self.reduced("ReduceSum", is_above, 2)

    # Types, shapes and places

    def _to_copy(self, value: Value, **_: Any) -> Any:
        return self.number(value)

    alias = clone = detach = lift_fresh_copy = _to_copy

    def full_like(self, value: Value, number: float = 0.0, **_: Any) -> Value:
        return self.graph.filled_like(value, number, self.out.dtype)

    zeros_like = full_like
    ones_like = partialmethod(full_like, number=1.0)

    def view(self, value: Value, sizes: Sequence[Any]) -> Value:
        return self.add_node("Reshape", value, [-1 if n is _ROWS else n for n in sizes])

    _unsafe_view = view

    def expand(self, value: Value, sizes: Sequence[Any]) -> Value:
        return self.add_node("Expand", value, [1 if n is _ROWS else n for n in sizes])

    def unsqueeze(self, value: Any, axis: int) -> Value:
        return self.add_node("Unsqueeze", value, [axis])

    def permute(self, value: Value, axes: Sequence[int]) -> Value:
        return self.add_node("Transpose", value, perm=[axis % value.rank for axis in axes])

    def transpose(self, value: Value, first: int = 0, second: int = 1) -> Value:
        axes = list(range(value.rank))
        axes[first], axes[second] = axes[second], axes[first]
        return self.permute(value, axes)

    t = transpose

    def slice(
        self, value: Value, axis: int = 0, start: Any = 0, end: Any = _END, step: int = 1
    ) -> Value:
        end = _END if end is None or end is _ROWS else end
        return self.add_node("Slice", value, [start or 0], [end], [axis], [step])

    def select(self, value: Any, axis: int, place: Any) -> Value:
        return self.add_node("Gather", value, place, axis=axis)

    index_select = select

    def gather(self, value: Any, axis: int, places: Any) -> Value:
        return self.add_node("GatherElements", value, places, axis=axis)

    def embedding(self, table: Tensor, places: Value, *_: Any) -> Value:
        return self.select(table, 0, places)

    def index(self, value: Any, places: Sequence[Any]) -> Value:
        first, *others = (axis for axis, place in enumerate(places) if place is not None)
        place = places[first]
        if isinstance(place, Tensor) and place.dtype == torch.bool:
            place = place.nonzero()[:, 0]
        for axis in others:  # neighbors, of a constant table: as one axis
            place = self.graph.add("Mul", place, value.shape[first + 1], like=places[axis])
            place = self.graph.add("Add", place, places[axis], like=places[axis])
            value = value.flatten(first, first + 1)
        return self.select(value, first, place)

    def unbind(self, value: Value, axis: int = 0) -> list[Value]:
        return [
            _Operators(self.graph, one).select(value, axis, n) for n, one in enumerate(self.out)
        ]

    def split(self, value: Value, size: int, axis: int = 0) -> list[Value]:
        if len(self.out) > 1:
            raise NotImplementedError("torch's split")
        return [value]

    def cat(self, parts: Sequence[Any], axis: int = 0) -> Value:
        filled = [part for part in parts if isinstance(part, Value) or part.numel() > 0]
        return self.add_node("Concat", *map(self.number, filled), axis=axis)

    def stack(self, parts: Sequence[Any], axis: int = 0) -> Value:
        return self.cat([self.unsqueeze(part, axis) for part in parts], axis)

    def with_part(self, whole: Value, part: Value, axis: int, place: int) -> Value:
        """A value after `whole[..., place] = part`."""
        before, after = self.slice(whole, axis, 0, place), self.slice(whole, axis, place + 1)
        return self.cat([before, self.unsqueeze(part, axis), after], axis)

    # Trees

    def leaf_sums(self, points: Value, forest: Forest) -> Value:
        """The operator for trees, of columns with all nodes, and with all values of the leaves."""
        roots, left, values = (
            tensor.cpu().numpy() for tensor in (forest.roots_, forest.children_, forest.values_)
        )
        places, n_classes = np.arange(len(left)), values.shape[1]
        tree = roots.searchsorted(places, side="right") - 1
        node, is_leaf = places - roots[tree], left == places
        at_left = np.where(is_leaf, 0, left - roots[tree])
        columns = {
            "nodes_treeids": tree,
            "nodes_nodeids": node,
            "nodes_featureids": forest.features_.cpu().numpy(),
            "nodes_values": np.where(is_leaf, np.float32(0), forest.thresholds_.cpu().numpy()),
            "nodes_modes": np.where(is_leaf, "LEAF", "BRANCH_LEQ"),
            "nodes_truenodeids": at_left,
            "nodes_falsenodeids": np.where(is_leaf, 0, at_left + 1),
            "target_treeids": tree[is_leaf].repeat(n_classes),
            "target_nodeids": node[is_leaf].repeat(n_classes),
            "target_ids": np.tile(np.arange(n_classes), is_leaf.sum()),
            "target_weights": values[is_leaf].ravel(),
        }
        lists: dict[str, Any] = {name: column.tolist() for name, column in columns.items()}
        return self.add_node(
            "TreeEnsembleRegressor", points, domain=TREES, n_targets=n_classes, **lists
        )

    # Images

    def convolution(
        self, value: Value, weight: Tensor, bias: Any, strides: Any, padding: Any, *_: Any
    ) -> Value:
        inputs = [one for one in (value, weight, bias) if one is not None]
        return self.add_node("Conv", *inputs, strides=list(strides), pads=[*padding, *padding])

    def max_pool2d_with_indices(
        self, value: Value, kernel: Any, strides: Any = None
    ) -> list[Value]:
        options = {"kernel_shape": list(kernel), "strides": list(strides or kernel)}
        return [self.graph.add("MaxPool", value, **options, like=self.out[0])]
