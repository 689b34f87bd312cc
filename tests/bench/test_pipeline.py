"""The benchmark of the pipeline: its page has a place for each of its tables."""

import pytest

pytest.importorskip("pyarrow")

from bench.pipeline import PAGE, SCALE_TARGET, TARGET


@pytest.mark.parametrize("target", [TARGET, SCALE_TARGET])
def test_page_has_its_places(target: str) -> None:
    page = PAGE.read_text()
    assert page.count(f"<!-- {target}: begin -->") == page.count(f"<!-- {target}: end -->") == 1
    assert page.index(f"<!-- {target}: begin -->") < page.index(f"<!-- {target}: end -->")
