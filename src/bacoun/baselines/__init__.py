"""Competing methods: points (N, D), labels (N,) -> class probabilities (S, N, K) under draws.

They have the interface of `BaCOUnClassifier`. `BNN` and `GP` need the extra `bacoun[paper]`.
"""

from bacoun.baselines.bnn import BNN
from bacoun.baselines.ensemble import DeepEnsemble
from bacoun.baselines.gp import GP
from bacoun.baselines.mc_dropout import MCDropout
from bacoun.baselines.nlm import NLM

KINDS = {"nlm": NLM, "bnn": BNN, "mc-dropout": MCDropout, "gp": GP, "ensemble": DeepEnsemble}

__all__ = ["BNN", "GP", "KINDS", "NLM", "DeepEnsemble", "MCDropout"]
