"""Routes: one module for each part of the service."""
