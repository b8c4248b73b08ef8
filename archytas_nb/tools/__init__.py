"""A Python function becomes a tool: text for the model, JSON schema, validator, bounded results."""
