"""The code of a run: derived from its calls, verified, and verified again when data change."""
