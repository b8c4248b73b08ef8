"""What is done differently for a small model; the rest of the package reads none of it."""
