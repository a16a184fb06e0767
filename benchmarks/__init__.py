"""Benchmarks of speed and accuracy against other libraries: `make bench`."""
