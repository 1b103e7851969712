"""Check which tokens two questions can share."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prompt_coevo.algorithms.stream.tokens import tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Use dax on w12, w3!", "use dax on w12 w3"),
        ("getUserName and user_name", "get user name and"),
        ("parseHTML(2x) != HTMLParser_", "parse html 2x = htmlparser"),
        ("if a->b <= c**2", "if a -> b <= c ** 2"),
        (r"\frac{1}{x} + \int_0^1", "frac 1 x + int 0 ^"),
        ("x ≤ ∑ y ∪ z", "x ≤ ∑ y ∪ z"),
        ("naïve Œuvre СЛОВО", "naïve œuvre слово"),
        ("서울은 어디", "서울은 어디"),
        ("हिन्दी में प्रश्न।", "हिन्दी में प्रश्न"),
        ("東京都", "東京 京都"),
        ("求 x 的值", "求 x 的值"),
        ("カレー・ライス", "カレ レー ライ イス"),
        ("ｶﾚｰ ２＋３", "カレ レー 2 + 3"),
        ("GPT的用法", "gpt 的用 用法"),
        ("มะม่วง ข้อ", "มะม ะม่ ม่ว ่วง ข้อ"),
        ("ຂ້າພະ", "ຂ້າ ້າພ າພະ"),
        ("ភ្នំពេញ។", "ភ្ន ្នំ នំព ំពេ ពេញ"),
        ("မြန်မာ။", "မြန ြန် န်မ ်မာ"),
        ("", ""),
        ("?! ()", ""),
    ],
)
def test_tokens(text: str, expected: str) -> None:
    assert list(tokens(text)) == expected.split()


def test_both_forms_of_an_accent_are_one_word() -> None:
    for text in ("café", "プログラム", "tiếng Việt"):
        assert tokens(unicodedata.normalize("NFD", text)) == tokens(text)


@given(st.text(alphabet=st.characters(max_codepoint=0x10FFFF, categories=None)))
def test_any_text_has_tokens_without_spaces(text: str) -> None:
    for token in tokens(text):
        assert token
        assert not any(map(str.isspace, token))


@given(st.text(alphabet="aZ_9-+ .{}", max_size=40))
def test_a_letter_outside_ascii_changes_nothing_for_the_others(text: str) -> None:
    """ASCII texts take a faster path, which must give the same result."""
    assert tokens(text + " é") == tokens(text) | {"é": None}
