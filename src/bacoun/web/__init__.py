"""What the scoring service and the playground share: errors, OpenAPI documents, pages.

Knows nothing of models, and imports nothing else of this package.
"""
