"""Dialects: a body -> a table, a scored table -> a body. One module for each protocol."""
