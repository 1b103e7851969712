"""Check the stems of words against Porter's published ones and his paper's examples."""

from __future__ import annotations

import threading

import pytest

from prompt_coevo.errors import SettingsError
from prompt_coevo.retrieval.bm25.stemming import porter, snowball

# The sample vocabulary that the algorithm is published with: words of a row have the stem before the colon.
PUBLISHED = """
consign: consign consigned consigning consignment
consist: consist consisted consistency consistent consistently consisting consists
consol: consolation consolations console consoled consoles consoling consols
consolatori: consolatory
consolid: consolidate consolidated consolidating
consolingli: consolingly
conson: consonant
consort: consort consorted consorting
conspicu: conspicuous conspicuously
conspiraci: conspiracy
conspir: conspirator conspirators conspire conspired conspiring
constabl: constable constables
constanc: constance constancy
constant: constant
knack: knack knacks
knackeri: knackeries
knag: knag
knave: knave knaves
knavish: knavish
knead: kneaded kneading
knee: knee knees
kneel: kneel kneeled kneeling kneels
knell: knell
knelt: knelt
knew: knew
knick: knick
knif: knif
knife: knife
knight: knight knights
knightli: knightly
knit: knit knits knitted knitting
knive: knives
knob: knob knobs
knock: knock knocked knocking knocks
knocker: knocker knockers
knot: knot knots
caress: caresses caress
poni: ponies
ti: ties
cat: cats cat
feed: feed
agre: agreed agree
plaster: plastered
bled: bled
motor: motoring
sing: sing
hop: hopping hop
tan: tanned
fall: falling
hiss: hissing
fizz: fizzed
fail: failing
file: filing
happi: happy
sky: sky
relat: relational relate
condit: conditional
ration: rational
digit: digitizer
radic: radically
differ: differently
vile: vilely
oper: operator operation
feudal: feudalism
decis: decisiveness
hope: hopefulness hope
callous: callousness
formal: formality formalize
sensit: sensitivity
electr: electrical electricity
good: goodness
reviv: revival
allow: allowance
infer: inference
airlin: airliner
gyroscop: gyroscopic
adjust: adjustable adjustment
defens: defensible
irrit: irritant
replac: replacement
depend: dependent
adopt: adoption
homolog: homologous
commun: communism
activ: activate
effect: effective
bowdler: bowdlerize
probat: probate
rate: rate
ceas: cease
control: controlling control
roll: roll
gener: generalizations
oscil: oscillators
"""

# Where Lucene follows Porter's program, which parts from his paper: the stem, then what the paper gives.
PROGRAM = [
    ("as", "as", "a"),
    ("is", "is", "i"),
    ("us", "us", "u"),
    ("technology", "technolog", "technologi"),
    ("apologies", "apolog", "apologi"),
    ("assembly", "assembl", "assembli"),
    ("assemblies", "assembl", "assembli"),
    ("possibly", "possibl", "possibli"),
    ("trekking", "trek", "trekk"),
    ("revved", "rev", "revv"),
]


def test_published_stems() -> None:
    stem = porter()
    pairs = [
        (word, root)
        for root, _, row in (line.partition(":") for line in PUBLISHED.split("\n"))
        for word in row.split()
    ]
    assert len(pairs) == 148
    assert {word: stem(word) for word, _ in pairs} == dict(pairs)


@pytest.mark.parametrize(("word", "stem", "of_the_paper"), PROGRAM)
def test_lucene_stems_as_the_program_does(word: str, stem: str, of_the_paper: str) -> None:
    assert porter()(word) == stem
    assert snowball("porter")(word) == of_the_paper


@pytest.mark.parametrize(
    "word", ["fly", "logy", "bly", "bli", "logic", "apologie", "axx", "kk", "ss", ""]
)
def test_what_looks_alike_is_left_to_snowball(word: str) -> None:
    assert porter()(word) == (snowball("porter")(word) if len(word) > 2 else word)


def test_other_languages() -> None:
    assert snowball("german")("häuser") == "haus"
    assert snowball("french")("nationalités") == snowball("french")("nationalité")
    with pytest.raises(
        SettingsError, match=r"no stemmer for language = 'klingon'; choose one of: .*basque"
    ):
        snowball("klingon")


def test_threads_do_not_disturb_each_other() -> None:
    stem = porter()
    words = [
        f"{root}{end}"
        for root in ("connect", "relat", "hop", "oper")
        for end in ("ing", "ed", "ions")
    ]
    expected = [stem(word) for word in words]
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append([stem(word) for word in words * 200]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected * 200] * 4
