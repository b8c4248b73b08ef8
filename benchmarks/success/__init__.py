"""Tasks that measure how often an agent succeeds with a given model: ``python -m benchmarks.success --help``."""
