"""The paper's experiments: a TOML file for each, in; records of numbers and maps, out."""

from reproduction.results import Record, load_records
from reproduction.schema import Experiment, missing_files, names, read_experiment

__all__ = ["Experiment", "Record", "load_records", "missing_files", "names", "read_experiment"]
