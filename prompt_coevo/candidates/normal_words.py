"""The normal form in which candidates are compared with forbidden texts, and words as hashes.

Compatibility forms, case, accents, invisible characters, and the commonest look-alikes among Cyrillic,
Greek and Armenian letters are folded; everything except letters and digits separates words. The look-alike
table covers letters that look Latin in usual fonts. Digits for letters ("T0lstoy"), other alphabets and
drawn letters are not folded.

One Python object per word would be most of the cost. So the words of many texts are hashed at once, to 64
bits: the polynomial of a word's bytes at a fixed odd point, modulo 2**64, mixed. Hashes are the same in
every process. They are not safe against deliberate collisions, but a collision only gets a candidate
refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

# In scripts without spaces every character counts as a word.
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
# Greek capitals look like other Latin letters than their small forms.
_GREEK_CAPITALS: Final = str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_BASE64_PART: Final = re.compile(r"[A-Za-z0-9+]{8,}={0,2}")
_SPACE, _LINE_END, _NINE = ord(" "), ord("\n"), ord("9")


def normal_line(text: str) -> bytes:
    """Return the words of a text in normal form, separated by spaces, as UTF-8. Never raises."""
    if text.isascii():
        return text.encode().translate(_ASCII)
    return " ".join(_WORD.findall(_folded(text))).encode("utf-8", "replace")


def readings(text: str) -> list[str]:
    """Return the text and other ways to read it: backwards, with Greek capitals as Latin ones, with HTML
    references resolved, and its base64 runs, or their parts between slashes and dashes, decoded once."""
    said = {run: None for pattern in (_BASE64, _BASE64_PART) for run in pattern.findall(text)}
    dressed = dict.fromkeys([text.translate(_GREEK_CAPITALS), html.unescape(text)])
    dressed.pop(text, None)
    return [text, text[::-1], *dressed, *filter(None, map(_decoded, said))]


def stable_hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Hash each text to 64 bits, the same in every process."""
    hashes = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8) for text in texts
    )
    return np.frombuffer(b"".join(one.digest() for one in hashes), dtype="<u8").astype(np.uint64)


_BASE, _MIX = stable_hashes(["base", "mix"]) | np.uint64(1)
_BACK: Final = np.uint64(pow(int(_BASE), -1, 1 << 64))


class Words:
    """The words of some texts, given in the form of `normal_line`: UTF-8, separated by spaces.

    `hashes`, `sizes` (in bytes) and `digits` (whether the word begins and ends with a digit) have one entry
    per word, one text after the other. `counts` has the number of words of each text.
    """

    def __init__(self, lines: Sequence[bytes]) -> None:
        data = np.frombuffer(b"\n".join([b"", *lines, b""]), dtype=np.uint8)
        inside = data > _SPACE
        starts = np.flatnonzero(inside[1:] > inside[:-1]) + 1
        ends = np.flatnonzero(inside[1:] < inside[:-1]) + 1
        # A word's hash is the difference of two prefix sums, divided by the power at which the word begins.
        sums = np.cumsum(data * _powers(_BASE, len(data)))
        hashes = (sums[ends - 1] - sums[starts - 1]) * _powers(_BACK, len(data))[starts]
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _MIX
        self.hashes = hashes ^ (hashes >> np.uint64(29))
        self.sizes = ends - starts
        self.digits = (data[starts] <= _NINE) & (data[ends - 1] <= _NINE)
        self.counts = np.diff(np.searchsorted(starts, np.flatnonzero(data == _LINE_END)))

    @property
    def texts(self) -> NDArray[np.int64]:
        """The number of its text, for each word."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def runs(self, length: int) -> NDArray[np.uint64]:
        """Return a hash for each run of so many words, including runs that cross into the next text."""
        places = max(0, len(self.hashes) - length + 1)
        found = np.zeros(places, dtype=np.uint64)
        for place in range(length):
            found *= _BASE
            found += self.hashes[place : place + places]
        return found


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


def _powers(base: np.uint64, count: int) -> NDArray[np.uint64]:
    return _table_of_powers(base, max(16, count.bit_length()))[:count]


@lru_cache(maxsize=4)
def _table_of_powers(base: np.uint64, bits: int) -> NDArray[np.uint64]:
    found = np.full(1 << bits, base)
    found[0] = 1
    return np.cumprod(found)
