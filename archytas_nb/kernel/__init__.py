"""The only door to the user's namespace: run one call there, capture what it shows."""
