"""Results in, text and pictures out; nothing is fitted here."""

from bacoun.display import UncertaintyDisplay

__all__ = ["UncertaintyDisplay"]
