"""The paper's experiments: a TOML file for each, in; records of numbers and maps, out."""

from bacoun.experiments.results import Record, load_records
from bacoun.experiments.schema import Experiment, names, read_experiment

__all__ = ["Experiment", "Record", "load_records", "names", "read_experiment"]
