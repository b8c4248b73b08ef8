"""Asks an agent about every row of a column: in parallel, within a budget, and resumable."""
