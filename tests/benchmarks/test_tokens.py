"""The measurement of tokens: that its script is answered as it was written, and what it must show."""

from __future__ import annotations

import pytest

from benchmarks.tokens import common, measure, report


@pytest.mark.slow
def test_requests_extend_each_other_and_all_parts_are_counted() -> None:
    found = measure()
    assert set(found) == {"conversations", "map"}
    for each in found.values():
        assert each.requests > 10
        assert each.kept / each.before >= 0.95
        assert 0.8 * each.sent < sum(each.parts.values()) < 1.2 * each.sent
        assert each.cached <= each.sent
    assert "variables" in report(found)


def test_the_common_prefix_of_two_texts() -> None:
    assert common("abcd", "abx") == "ab"
    assert common("", "abx") == ""
    assert common("ab", "ab") == "ab"
