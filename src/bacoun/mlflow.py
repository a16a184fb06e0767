"""`import bacoun.mlflow`: saves and logs models; saved models name this module as their loader."""

from bacoun.export.mlflow import _load_pyfunc, log_model, save_model

__all__ = ["_load_pyfunc", "log_model", "save_model"]
