"""Language models: OpenAI-compatible endpoints, Anthropic's API and the embedded model."""
