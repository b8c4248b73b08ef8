"""The cells of the notebook: which one ran or failed, and what the model reads of them."""
