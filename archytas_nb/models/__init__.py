"""The only door to a language model: OpenAI-compatible endpoints, the embedded model, cassettes."""
