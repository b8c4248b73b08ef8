"""Asks an agent about every row of a column: in parallel, within a budget, and resumable."""

STORE = "cassettes/map.sqlite"
"""Where the results of maps are kept unless a file is named."""
