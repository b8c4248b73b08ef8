from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live_kernel import Kernel, live_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for a file of tests, with the extension loaded and no model named."""
    with live_kernel(Path(tmp_path_factory.mktemp("kernel"))) as kernel:
        assert kernel.run("%load_ext archytas_nb").status == "ok"
        yield kernel


COUNT = '''%%tool
def count(species: str) -> int:
    """Count the penguins of one species.

    Args:
        species: The species
    """
    return penguins.count(species)
'''
