"""Models and fits on disk: written atomically, with checksums, without pickle."""
