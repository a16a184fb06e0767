"""`bacoun export`: write a fitted model as ONNX, to run it without Python."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def export(
    model: Annotated[Path, Argument(help="Folder of a fitted model.")],
    onnx: Annotated[Path, Option(help="File to write.")],
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write a model as one ONNX graph: numbers in; probabilities, uncertainties, p(OOD) out.

    The graph of a table's model takes the features that `bacoun fit` encoded; their names are in
    its metadata. The deferral rule is not exported.

    Example: `bacoun export model --onnx model.onnx`
    """
    from bacoun.classifier import BaCOUnClassifier
    from bacoun.columns.reading import listed
    from bacoun.export.onnx import export_onnx
    from bacoun.files.model_folder import read_folder
    from bacoun.tabular import TableModel

    names = None
    if "classifier" in read_folder(model):
        table = TableModel.load(model)
        if table.known:
            raise ValueError(
                f"an ONNX graph takes numbers; {listed(table.known)} must go through an encoder "
                "first. In Python, export the classifier alone, bacoun.export.onnx.export_onnx("
                "model.classifier, ...), whose inputs are the vectors and other features."
            )
        classifier, names = table.classifier, table.feature_names
    else:
        classifier = BaCOUnClassifier.load(model)
    export_onnx(classifier, onnx, feature_names=names, overwrite=overwrite)
    typer.echo(f"wrote {onnx}")
