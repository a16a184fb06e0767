"""Fitted models for other tools: ONNX graphs, MLflow, scikit-learn's scorers and displays."""
