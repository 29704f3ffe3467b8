"""The page about the dialect lists what the tables say."""

import re
from pathlib import Path

from softnpu.tilelang_ascend import language
from softnpu.tilelang_ascend.doc_table import filled
from softnpu.tilelang_ascend.intrinsics import TABLE, UNSUPPORTED, UNSUPPORTED_TILE
from softnpu.tilelang_ascend.language import scalar, tile

PAGE = Path(__file__).parents[2] / "docs" / "tilelang-ascend.md"


def test_intrinsic_table_is_current():
    """`python -m softnpu.tilelang_ascend.doc_table docs/tilelang-ascend.md` renews it."""
    text = PAGE.read_text()
    assert filled(text) == text


def test_every_supported_name_is_on_the_page():
    named = set(re.findall(r"`(?:T\.)?(?:tile\.)?(\w+)", PAGE.read_text()))
    supported = (
        set(language.__all__)
        - set(UNSUPPORTED)
        - set(scalar.SCALAR_TYPES)
        - {"bool", "tile", "power"}
    )
    vector = set(tile.__all__) - set(UNSUPPORTED_TILE) - set(TABLE)
    assert not sorted((supported | vector) - named)
