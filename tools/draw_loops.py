"""Draw one group of rollouts and the loop of each method: docs/results is measured, docs/loops is drawn.

    python tools/draw_loops.py

The pictures have their own background and follow the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final, TypeAlias

OUT: Final = Path(__file__).resolve().parent.parent / "docs" / "loops"
_STYLE: Final = """
  .paper{fill:#ffffff} .box{fill:#f2f4f8;stroke:#3b4252;stroke-width:1.5}
  .ours{fill:#dbe9ff;stroke:#1f5fbf;stroke-width:2}
  .asked{fill:#fff0d6;stroke:#a35c00;stroke-width:2;stroke-dasharray:6 3}
  .right{fill:#dcf5e3;stroke:#1a7f37;stroke-width:2}
  text{fill:#1c2128;font-family:system-ui,sans-serif;font-size:15px} .small{font-size:13px;fill:#4a5361}
  .cell{font-size:13px}
  .head{font-size:17px;font-weight:600} .line{fill:none;stroke:#3b4252;stroke-width:1.8} .tip{fill:#3b4252}
  @media (prefers-color-scheme: dark){
  .paper{fill:#161a20} .box{fill:#232a34;stroke:#9aa7b8} .ours{fill:#17345f;stroke:#7fb0ff}
  .asked{fill:#45310f;stroke:#f0b860}
  .right{fill:#12381f;stroke:#5fd38a} text{fill:#e8ecf2} .small{fill:#b4bfcc}
  .line{stroke:#9aa7b8} .tip{fill:#9aa7b8}}
"""


@dataclass(frozen=True)
class Box:
    """A step: its centre, and its lines, the first in the trainer's words, the others smaller."""

    x: int
    y: int
    lines: tuple[str, ...]
    kind: str = "box"
    width: int = 230

    @property
    def height(self) -> int:
        return 26 + 20 * len(self.lines)

    def drawn(self) -> str:
        left, top = self.x - self.width // 2, self.y - self.height // 2
        size = f'width="{self.width}" height="{self.height}"'
        shape = f'<rect class="{self.kind}" x="{left}" y="{top}" {size} rx="8"/>'
        texts = [
            f'<text x="{self.x}" y="{top + 29 + 20 * n}" text-anchor="middle"'
            f"{'' if n == 0 else ' class=' + chr(34) + 'small' + chr(34)}>{escape(line)}</text>"
            for n, line in enumerate(self.lines)
        ]
        return "\n".join([shape, *texts])


@dataclass(frozen=True)
class Arrow:
    """A line through points, with a tip at its end and a word beside its middle."""

    points: tuple[tuple[int, int], ...]
    word: str = ""
    at: tuple[int, int] = (0, 0)

    def drawn(self) -> str:
        path = " ".join(f"{'M' if n == 0 else 'L'}{x} {y}" for n, (x, y) in enumerate(self.points))
        line = f'<path class="line" d="{path}" marker-end="url(#tip)"/>'
        if not self.word:
            return line
        return f'{line}\n<text class="small" x="{self.at[0]}" y="{self.at[1]}">{escape(self.word)}</text>'


@dataclass(frozen=True)
class Cell:
    """A part of a prompt or a completion: its left edge, the middle of its row, and a word."""

    x: int
    y: int
    word: str
    kind: str = "box"
    width: int = 100

    def drawn(self) -> str:
        size = f'width="{self.width}" height="30"'
        return (
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y - 15}" {size} rx="6"/>\n'
            f'<text class="cell" x="{self.x + self.width // 2}" y="{self.y + 5}" text-anchor="middle">'
            f"{escape(self.word)}</text>"
        )


@dataclass(frozen=True)
class Line:
    """A line of text that begins at a point."""

    x: int
    y: int
    text: str
    kind: str = ""

    def drawn(self) -> str:
        kind = f' class="{self.kind}"' if self.kind else ""
        return f'<text{kind} x="{self.x}" y="{self.y}">{escape(self.text)}</text>'


Part: TypeAlias = Box | Arrow | Cell | Line


def picture(title: str, described: str, height: int, parts: Sequence[Part]) -> str:
    marker = (
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto"><path class="tip" d="M0 0L10 5L0 10z"/></marker></defs>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" role="img" '
            'aria-labelledby="title described">',
            f'<title id="title">{escape(title)}</title><desc id="described">{escape(described)}</desc>',
            f"<style>{_STYLE}</style>{marker}",
            f'<rect class="paper" width="860" height="{height}"/>',
            f'<text class="head" x="30" y="38">{escape(title)}</text>',
            *(part.drawn() for part in parts),
            "</svg>\n",
        ]
    )


def row(y: int, template: str, completion: str, reward: str, advantage: str) -> list[Part]:
    """Draw a rollout as it was sampled, and as it is trained on."""
    kind = "right" if reward == "1" else "box"
    sampled = [Cell(30, y, template, "ours")] if template else []
    return [
        *sampled,
        Cell(138, y, "question"),
        Cell(246, y, completion, kind, 120),
        Line(398, y + 5, reward),
        Line(468, y + 5, advantage),
        Arrow(((560, y), (604, y))),
        Cell(612, y, "question"),
        Cell(720, y, completion, kind, 120),
    ]


def group() -> str:
    parts = [
        Line(30, 74, "sampled", "small"),
        Line(382, 74, "reward", "small"),
        Line(452, 74, "advantage", "small"),
        Line(612, 74, "trained on", "small"),
        Cell(138, 104, "question"),
        Cell(246, 104, "wrong answer", width=120),
        Line(398, 109, "0"),
        Line(468, 109, "0"),
        Line(560, 109, "all rollouts alike: nothing is learned", "small"),
        Line(30, 160, "later, with templates:", "small"),
        *row(190, "", "wrong answer", "0", "below 0"),
        *row(232, "template A", "right answer", "1", "above 0"),
        *row(274, "template A", "right answer", "1", "above 0"),
        *row(316, "template B", "wrong answer", "0", "0 *"),
        Line(30, 368, "Advantages are the trainer's own, over the whole group.", "small"),
        Line(
            30,
            390,
            "Every log-probability in the loss is computed on the question alone (P2O, eq. 5).",
            "small",
        ),
        Line(30, 412, "* with stream; below 0 with p2o and hints.", "small"),
    ]
    described = (
        "Without templates all rollouts of a hard question have reward 0 and nothing is learned. In a "
        "group with templates, one rollout without a template fails, two under template A succeed, one "
        "under template B fails. All four are trained on the question without a template; the right "
        "answers have an advantage above 0."
    )
    return picture("One group: sampled with templates, trained without", described, 432, parts)


def templates(
    title: str,
    described: str,
    sampled: str,
    advantages: str,
    judged: tuple[str, str],
    asked: str,
    trial: tuple[str, str],
    words: tuple[str, str],
) -> str:
    """Draw the loop that stream and P2O share, with what differs."""
    boxes = [
        Box(165, 110, ("a group of rollouts", sampled), "ours", 270),
        Box(450, 110, ("rewards", "the trainer's own"), width=170),
        Box(705, 110, ("advantages", advantages), width=270),
        Box(705, 250, ("take the template out", "prompt: the question alone (eq. 5)"), "ours", 250),
        Box(430, 250, ("update the weights", "the trainer's own loss"), width=210),
        Box(165, 250, judged, "ours", 250),
        Box(165, 410, ("the reflection model", asked), "asked", 250),
        Box(447, 410, ("gates", "leaks, length, special tokens"), "ours", 214),
        Box(715, 410, trial, "ours", 240),
    ]
    arrows = [
        Arrow(((300, 110), (365, 110))),
        Arrow(((535, 110), (570, 110))),
        Arrow(((705, 143), (705, 217))),
        Arrow(((580, 250), (535, 250))),
        Arrow(((325, 250), (290, 250))),
        Arrow(((165, 283), (165, 377)), words[0], (175, 335)),
        Arrow(((290, 410), (340, 410))),
        Arrow(((554, 410), (595, 410))),
        Arrow(((715, 443), (715, 490), (18, 490), (18, 110), (30, 110)), words[1], (300, 482)),
    ]
    return picture(title, described, 515, [*arrows, *boxes])


def stream() -> str:
    return templates(
        "stream: templates are tried inside training's own groups",
        "Rollouts of hard questions run without a template, under templates on trial or under templates in "
        "use; the gradient is on the bare question; a reflection model reads failures while training goes "
        "on; its templates pass gates and are tried in later groups.",
        "without, on trial, in use",
        "failed under a template: not below 0",
        ("what works where?", "hard: unsolved without a template"),
        "is asked while training goes on",
        ("a trial in later groups", "solves an unseen question: in use"),
        ("failures that nothing solves", "for the next groups"),
    )


def p2o() -> str:
    return templates(
        "P2O: templates are searched between two epochs",
        "Rollouts of hard questions run under templates; the gradient is on the bare question; after an "
        "epoch, failures go to a reflection model, whose templates pass gates and a trial with rollouts of "
        "its own, while training waits.",
        "hard questions: under templates",
        "over the whole group",
        ("which questions are hard?", "mean reward below tau (eq. 4)"),
        "reads failures, writes templates",
        ("trial by the current policy", "its own rollouts; training waits"),
        ("after an epoch", "templates for the next epoch"),
    )


def hints() -> str:
    boxes = [
        Box(165, 110, ("a group of rollouts", "hard questions: half with a hint"), "ours", 270),
        Box(450, 110, ("rewards", "the trainer's own"), width=170),
        Box(705, 110, ("advantages", "over the whole group"), width=250),
        Box(705, 250, ("take the hint out", "prompt: the question alone (eq. 5)"), "ours", 250),
        Box(430, 250, ("update the weights", "the trainer's own loss"), width=210),
        Box(165, 250, ("how did the hint do?", "solved: shorter; all failed: longer"), "ours", 250),
    ]
    arrows = [
        Arrow(((300, 110), (365, 110))),
        Arrow(((535, 110), (580, 110))),
        Arrow(((705, 143), (705, 217))),
        Arrow(((580, 250), (535, 250))),
        Arrow(((325, 250), (290, 250))),
        Arrow(((165, 217), (165, 143)), "next group", (175, 185)),
    ]
    described = (
        "Half of a hard question's group sees the beginning of its solution; the gradient is on the "
        "question alone; the hint gets shorter when it helps and longer when all fail."
    )
    return picture(
        "hints: the dataset's solutions in place of a search", described, 315, [*arrows, *boxes]
    )


def inspo() -> str:
    boxes = [
        Box(165, 110, ("draw an instruction", "softmax of the weights (eq. 4)"), "ours", 250),
        Box(450, 110, ("a group of rollouts", "all under this instruction"), width=220),
        Box(715, 110, ("rewards, update", "the instruction stays in the prompt"), width=260),
        Box(715, 250, ("weigh the instruction", "mean of its last steps (eq. 6)"), "ours", 240),
        Box(450, 250, ("every 5 steps: prune", "the worse half goes"), "ours", 210),
        Box(165, 250, ("the population", "at most 7 instructions"), "ours", 210),
        Box(
            165,
            410,
            ("at least as good as its parent?", "same questions, current policy"),
            "ours",
            270,
        ),
        Box(450, 410, ("gates", "leaks, length, special tokens"), "ours", 220),
        Box(715, 410, ("every 15 steps: reflect", "the best one and its failures"), "asked", 240),
    ]
    arrows = [
        Arrow(((290, 110), (340, 110))),
        Arrow(((560, 110), (585, 110))),
        Arrow(((715, 143), (715, 217))),
        Arrow(((595, 250), (555, 250))),
        Arrow(((345, 250), (270, 250))),
        Arrow(((165, 217), (165, 143))),
        Arrow(((715, 283), (715, 377)), "parent, failures", (725, 335)),
        Arrow(((595, 410), (560, 410))),
        Arrow(((340, 410), (300, 410))),
        Arrow(((165, 377), (165, 283)), "joins", (175, 335)),
    ]
    described = (
        "Each group runs under an instruction drawn from a population; instructions are weighed by "
        "rewards, the worse half is pruned, and the best one has children written by a reflection model, "
        "which join after gates and verification."
    )
    return picture(
        "INSPO: an instruction that learns with the policy", described, 475, [*arrows, *boxes]
    )


DRAWN: Final[Mapping[str, Callable[[], str]]] = {
    "group": group,
    "stream": stream,
    "p2o": p2o,
    "inspo": inspo,
    "hints": hints,
}
"""The pictures by the name of their file."""


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name, draw in DRAWN.items():
        (OUT / f"{name}.svg").write_text(draw(), "utf-8", newline="\n")
        print(OUT / f"{name}.svg")


if __name__ == "__main__":
    main()
