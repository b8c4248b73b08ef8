"""Functions and their code: how it is compiled, who calls it, and what a call passes first."""
