"""Generate questions of several kinds: in languages, in symbols, in code, and under instructions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Kinds: TypeAlias = list[tuple[str, str]]
"""Texts, each with its kind."""

INSTRUCTION: Final = (
    "Please solve the following problem carefully, think step by step, and write the final answer on the "
    "last line inside a box without any other text."
)
TUTOR: Final = (
    "You are a careful tutor who explains each result to a student and ends with the answer alone."
)
LANGUAGES: Final[Mapping[str, tuple[str, str]]] = {
    "Chinese": (
        "三角形,圆的半径,正方形面积,直角边长度;加速度,摩擦力,物体的质量,自由落体;唐朝皇帝,明朝科举,丝绸之路,秦始皇统一;"
        "通货膨胀率,需求曲线,中央银行利率,财政赤字",
        "请问{a}与{b}之间有什么关系？;在第{n}题中，已知{a}，求{b}是多少？;小明想知道{a}如何影响{b}。;如果{a}变为{n}，那么{b}会怎样？",
    ),
    "Japanese": (
        "三角形の面積,円の半径,正方形の辺,平行四辺形;重力加速度,まさつ力,自由落下,電気抵抗;みそ汁の作り方,カレーライスの材料,"
        "お米の炊き方,しょうゆの量;江戸幕府,明治維新,鎌倉時代の武士,戦国大名",
        "{a}と{b}の関係は何ですか。;問題{n}では{a}がわかっています。{b}を求めなさい。;太郎さんは{a}について{b}を調べたいと思っています。;"
        "もし{a}が{n}になると、{b}はどうなりますか。",
    ),
    "Thai": (
        "พื้นที่สามเหลี่ยม,รัศมีของวงกลม,มุมฉาก,ปริมาตรทรงกระบอก;ความเร่งโน้มถ่วง,แรงเสียดทาน,กระแสไฟฟ้า,พลังงานจลน์;"
        "แกงเขียวหวาน,ส้มตำมะละกอ,ต้มยำกุ้ง,ก๋วยเตี๋ยวเรือ;กรุงศรีอยุธยา,อาณาจักรสุโขทัย,พระนเรศวรมหาราช,สงครามโลก",
        "{a}เกี่ยวข้องกับ{b}อย่างไร;ในข้อ{n}กำหนด{a}ให้จงหา{b}ด้วย;สมชายอยากรู้ว่า{a}มีผลต่อ{b}หรือไม่;ถ้า{a}เปลี่ยนเป็น{n}แล้ว{b}จะเป็นอย่างไร",
    ),
}
_LATEX: Final = (
    r"\int_{{{a}}}^{{{b}}} {c}x^{{{d}}} \, dx",
    r"\sum_{{k={a}}}^{{{b}}} {c}k^{{{d}}}",
    r"\lim_{{x \to {a}}} \frac{{{b}x+{c}}}{{x^{d}-1}}",
    r"\begin{{pmatrix}} {a} & {b} \\ {c} & {d} \end{{pmatrix}}",
)
_NAMES: Final = (
    "user account login password",
    "invoice payment amount tax",
    "matrix row column transpose",
    "graph node edge path",
)


def in_language(name: str, count: int, seed: int) -> Kinds:
    """Put two terms of a kind into one of four sentences."""
    rng = random.Random(seed)
    kinds, sentences = (text.split(";") for text in LANGUAGES[name])
    return [
        (rng.choice(sentences).format(a=a, b=b, n=rng.randrange(10, 1_000)), kind)
        for kind in rng.choices(kinds, k=count)
        for a, b in [rng.sample(kind.split(","), 2)]
    ]


def topics(count: int, seed: int, kinds: int = 16) -> Kinds:
    """Combine two of a kind's three words with one word that no other question has."""
    rng = random.Random(seed)
    drawn = [rng.randrange(kinds) for _ in range(count)]
    return [
        (f"topic{k}x{a} topic{k}x{b} n{n}", str(k))
        for n, k in enumerate(drawn)
        for a, b in [rng.sample(range(3), 2)]
    ]


def under(instructions: Sequence[str], share: float, questions: Kinds, seed: int) -> Kinds:
    """Begin or end some of the questions with an instruction."""
    rng = random.Random(seed)
    return [
        (rng.choice(instructions).format(text) if rng.random() < share else text, kind)
        for text, kind in questions
    ]


def sentences(kinds: int, count: int, seed: int, numbers: int, names: int) -> Kinds:
    """Write a long sentence for each kind, in which only numbers and names differ."""
    rng = random.Random(seed)
    made: Kinds = []
    for _ in range(count):
        kind = rng.randrange(kinds)
        words = [f"k{kind}w{n}" if n % 3 else f"common{n}" for n in range(15)]
        words += [str(rng.randrange(1, 100)) for _ in range(numbers)]
        words += [f"name{rng.randrange(200)}" for _ in range(names)]
        made.append((" ".join(words), str(kind)))
    return made


def latex(count: int, seed: int) -> Kinds:
    rng = random.Random(seed)
    asked = ("Find ${}$.", "Compute $${}$$", "What is ${}$ ?", r"Evaluate \[{}\]")
    return [
        (
            rng.choice(asked).format(kind.format(**{n: rng.randrange(1, 60) for n in "abcd"})),
            kind,
        )
        for kind in rng.choices(_LATEX, k=count)
    ]


def formulas(count: int, seed: int) -> Kinds:
    """Write formulas whose kind is their operator alone."""
    rng = random.Random(seed)
    kinds = ("∫ {}x dx", "∑ {}k", "∂f/∂x of {}xy", "x ≤ {}", "A ∪ B, {}")
    return [
        (
            rng.choice(("Find ", "Compute ", "Evaluate ")) + kind.format(rng.randrange(100, 9_999)),
            kind,
        )
        for kind in rng.choices(kinds, k=count)
    ]


def code(count: int, seed: int) -> Kinds:
    """Write functions in both naming styles; the parts of a name are the kind."""
    rng = random.Random(seed)
    asked = ("What does {f}(x{n}) return?", "Mend def {f}(x{n}): return x{n}", "Test {f}({n}).")
    made: Kinds = []
    for number, kind in enumerate(rng.choices(_NAMES, k=count)):
        verb = rng.choice(("get", "set", "update", "check", "load"))
        parts = [verb, *rng.sample(kind.split(), 2)]
        camel = verb + "".join(part.title() for part in parts[1:])
        name = "_".join(parts) if rng.random() < 0.5 else camel
        made.append((rng.choice(asked).format(f=name, n=number), kind))
    return made
