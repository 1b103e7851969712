"""The form in which a candidate is compared with what it must not hold, and its words as hashes.

Compatibility forms, case, accents, what nobody sees, and the commonest look-alikes among Cyrillic, Greek
and Armenian letters are folded; all but letters and digits separates words. The table of look-alikes
covers what stands for a Latin letter in usual fonts; digits in the place of letters ("T0lstoy"), other
alphabets and drawn letters are not folded.

An object per word would be most of the cost, so the words of many texts become 64-bit hashes all at once:
the polynomial of a word's bytes at a fixed odd place, modulo 2**64, mixed. They are the same in every
process. Nothing here withstands somebody who wants two words to be alike: that would get a candidate
refused, and no more.
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
_SPACE, _LINE_END, _NINE = ord(" "), ord("\n"), ord("9")


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


def stable_hashes(texts: Sequence[str]) -> NDArray[np.uint64]:
    """64 bits of each text, the same in every process."""
    hashes = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8) for text in texts
    )
    return np.frombuffer(b"".join(one.digest() for one in hashes), dtype="<u8").astype(np.uint64)


_BASE, _MIX = stable_hashes(["base", "mix"]) | np.uint64(1)
_BACK: Final = np.uint64(pow(int(_BASE), -1, 1 << 64))


class Words:
    """The words of some texts in the form of `normal_line`: in UTF-8, with spaces between them.

    `hashes`, `sizes` (in bytes) and `digits` (whether a word begins and ends with one) have an entry for
    each word, one text after the other; `counts` has one for each text: how many words it has.
    """

    def __init__(self, lines: Sequence[bytes]) -> None:
        data = np.frombuffer(b"\n".join([b"", *lines, b""]), dtype=np.uint8)
        inside = data > _SPACE
        starts = np.flatnonzero(inside[1:] > inside[:-1]) + 1
        ends = np.flatnonzero(inside[1:] < inside[:-1]) + 1
        # A word is the difference of two sums over all bytes, brought back to where words begin.
        sums = np.cumsum(data * _powers(_BASE, len(data)))
        hashes = (sums[ends - 1] - sums[starts - 1]) * _powers(_BACK, len(data))[starts]
        hashes = (hashes ^ (hashes >> np.uint64(33))) * _MIX
        self.hashes = hashes ^ (hashes >> np.uint64(29))
        self.sizes = ends - starts
        self.digits = (data[starts] <= _NINE) & (data[ends - 1] <= _NINE)
        self.counts = np.diff(np.searchsorted(starts, np.flatnonzero(data == _LINE_END)))

    @property
    def texts(self) -> NDArray[np.int64]:
        """For each word the number of its text."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def runs(self, length: int) -> NDArray[np.uint64]:
        """A hash for each run of so many words, also for one that goes over the end of a text."""
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
