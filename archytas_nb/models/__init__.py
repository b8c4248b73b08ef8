"""Language models: OpenAI-compatible endpoints and the embedded model."""
