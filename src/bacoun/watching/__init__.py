"""Watching: scored rows -> deferral rate, familiarity and class shares over time, and drift.

A model's log is one SQLite file beside its folder. It holds counts by the minute and the state of
the test of drift; rows themselves only if that is asked for.
"""
