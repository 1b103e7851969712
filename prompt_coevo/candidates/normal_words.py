"""The form in which a candidate is compared with what it must not hold.

Compatibility forms, case, accents, what nobody sees, and the commonest look-alikes among Cyrillic, Greek
and Armenian letters are folded; all but letters and digits separates words. The table of look-alikes
covers what stands for a Latin letter in usual fonts; digits in the place of letters ("T0lstoy"), other
alphabets and drawn letters are not folded.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from typing import Final

# A character of a script that is written without spaces counts as a word.
_WORD: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    r"|[^\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_ASCII: Final = bytes(
    ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else ord(" ")
    for code in range(256)
)
_LOOK_ALIKES: Final = str.maketrans(
    "авеёкмнорстухѕіїјԁһԛԝӏү" + "αβεζηικμνορτυχγ" + "օսհոց" + "ıɑɡłøđ",
    "abeekmhopctyxsiijdhqwly" + "abeznikmvoptuxy" + "ouhng" + "iaglod",
)
# Capitals look like other Latin letters than their small ones.
_GREEK_CAPITALS: Final = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_BASE64_PART: Final = re.compile(r"[A-Za-z0-9+]{8,}={0,2}")


def normal_line(text: str) -> bytes:
    """The words of a text in normal form with spaces between them, as UTF-8. Never raises on any text."""
    if text.isascii():
        return text.encode().translate(_ASCII)
    return " ".join(_WORD.findall(_folded(text))).encode("utf-8", "replace")


def readings(text: str) -> list[str]:
    """The text itself, the text read backwards, with Greek capitals as Latin ones, without the references
    of HTML, and what its base64 runs say, or their parts between slashes and dashes, one level deep."""
    said = {run: None for pattern in (_BASE64, _BASE64_PART) for run in pattern.findall(text)}
    dressed = dict.fromkeys([text.translate(_GREEK_CAPITALS), html.unescape(text)])
    dressed.pop(text, None)
    return [text, text[::-1], *dressed, *filter(None, map(_decoded, said))]


def _folded(text: str) -> str:
    wide = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    seen = (char for char in wide if unicodedata.category(char) not in ("Mn", "Cf"))
    return "".join(seen).translate(_LOOK_ALIKES)


def _decoded(run: str) -> str | None:
    core = run.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        text = base64.b64decode(core + "=" * (-len(core) % 4)).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return text if text.isprintable() or "\n" in text else None
