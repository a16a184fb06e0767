"""Dialects: a body -> a table, a scored table -> a body; one module for each protocol.

A dialect is a module with the addresses that clients ask, `routes`, and what a worker does with a
body that came there, `read`. Its name here is the kind of job that its routes ask for. In the
process that accepts requests a dialect imports neither pandas nor torch.
"""

from bacoun.server.dialects import mlflow, open_inference, photos, tables
from bacoun.server.dialects.dialect import Dialect

DIALECTS: dict[str, Dialect] = {
    "predict": tables,
    "photos": photos,
    "infer": open_inference,
    "invocations": mlflow,
}
