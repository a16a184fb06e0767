"""Comparison: a table -> shifts -> every method on the same rows -> metrics, ranks and a page.

`cases` splits tables and makes shifts, `methods` fits rivals and ours behind one small adapter
(`detectors` are those that only tell unusual rows), `run` judges what they say, `ranking` tests the
differences, `record` resumes.
"""
