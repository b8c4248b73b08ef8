"""Records model replies and users' answers, and replays them."""

DEFAULT = "default"
"""The name in a cassette of a model that the notebook does not name."""
