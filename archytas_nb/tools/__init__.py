"""Turns Python functions into tools: text for the model, JSON schema, validation, results."""
