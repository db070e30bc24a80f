"""Words of notices: they count right, and say what is so where there is nothing to count."""

from __future__ import annotations

import pytest

from sentinel_kernel.kernel.words import artifacts


@pytest.mark.parametrize(
    ("files", "left_out", "english", "chinese"),
    [
        (0, 0, "Files were deleted in the sandbox alone", "只在沙箱中被删除"),
        (0, 1, "What the sandbox changed could not be saved; nothing of it was", "1 个文件均未能保存"),
        (0, 3, "None of the sandbox's 3 changed files could be saved", "3 个文件均未能保存"),
        (1, 0, "The sandbox's one changed file was saved in /store/x", "1 个文件已保存到 /store/x"),
        (4, 2, "4 changed files were saved in /store/x; 2 more could not be", "另有 2 个未能保存"),
    ],
)
def test_saved_files_are_spoken_of_where_there_are_any(
    files: int, left_out: int, english: str, chinese: str
) -> None:
    told = artifacts("/store/x", files, left_out)
    assert english in told.message_en
    assert chinese in told.message_zh
    said = told.message_en + told.message_zh + told.hint_en + told.hint_zh
    assert "/store/x" in said
    assert " 0 " not in said


@pytest.mark.parametrize("left_out", [1, 3])
def test_where_nothing_can_be_saved_at_all_no_place_is_named(left_out: int) -> None:
    told = artifacts("", 0, left_out)
    assert "manifest" not in told.hint_en + told.hint_zh
    assert "SENTINEL_ARTIFACTS" in told.hint_en
    assert "SENTINEL_ARTIFACTS" in told.hint_zh
    assert "  " not in told.message_en + told.hint_en


@pytest.mark.parametrize(("files", "left_out"), [(1, 0), (4, 2), (0, 3)])
def test_nothing_is_said_of_what_was_saved_in_the_folder_before(files: int, left_out: int) -> None:
    told = artifacts("/store/x", files, left_out)
    assert "untouched" not in told.message_en
    assert "was written to the folder itself" in told.message_en
    assert "写入原文件夹" in told.message_zh
    assert "未被改动" not in told.message_zh
