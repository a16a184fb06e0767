"""Fitted models for other tools: a classifier or table model in, what the other tool reads out.

`onnx` writes one graph from raw inputs to all answers: `operators` translate what torch runs, and
`graph` holds them. `mlflow` logs models, `scorers` are for scikit-learn's searches, and `display`
plots a classifier over a plane.
"""
