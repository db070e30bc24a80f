"""The data of %sentinel_violations as text: what can't be seen is escaped, and it says the same."""

from __future__ import annotations

import json

from sentinel_kernel.kernel.violations_page import seen


def test_what_can_not_be_seen_is_escaped() -> None:
    document = {"source": "a\u202eb\u200b\U000e0001", "zh": "沙箱"}
    text = seen(json.dumps(document, ensure_ascii=False, indent=1))
    assert text.replace("\n", "").isprintable()
    assert "沙箱" in text
    assert json.loads(text) == document
