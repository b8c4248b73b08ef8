"""The code of a run: derived from its calls, proved, and proved again when the data change."""
