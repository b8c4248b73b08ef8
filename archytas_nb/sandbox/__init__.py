"""Programs of a model, run in the sandbox of pydantic-monty: sessions, values and checks."""
