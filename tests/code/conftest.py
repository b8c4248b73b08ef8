from tests.magics.conftest import shell

__all__ = ["shell"]
