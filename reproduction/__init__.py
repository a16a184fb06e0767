"""The paper's experiments: from TOML files to records of numbers and arrays."""

from reproduction.results import Record, load_records
from reproduction.schema import Experiment, missing_files, names, read_experiment

__all__ = ["Experiment", "Record", "load_records", "missing_files", "names", "read_experiment"]
