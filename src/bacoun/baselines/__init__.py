"""Competing methods: points (N, D), labels (N,) -> class probabilities (S, N, K) under draws.

They have the interface of `BaCOUnClassifier`. `BNN` and `GP` need the extra `bacoun[paper]`.
A file for each; `networks.py` holds what they share, settings and the course of `fit` among it.
"""

from bacoun.baselines.bnn import BNN
from bacoun.baselines.ddu import DDU
from bacoun.baselines.ensemble import DeepEnsemble
from bacoun.baselines.gp import GP
from bacoun.baselines.mc_dropout import MCDropout
from bacoun.baselines.natpn import NatPN
from bacoun.baselines.nlm import NLM
from bacoun.baselines.sngp import SNGP
from bacoun.baselines.vos import VOS

KINDS = {
    "nlm": NLM,
    "bnn": BNN,
    "mc-dropout": MCDropout,
    "gp": GP,
    "ensemble": DeepEnsemble,
    "natpn": NatPN,
    "sngp": SNGP,
    "ddu": DDU,
    "vos": VOS,
}

__all__ = ["BNN", "DDU", "GP", "KINDS", "NLM", "SNGP", "VOS", "DeepEnsemble", "MCDropout", "NatPN"]
