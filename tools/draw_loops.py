"""Draw the two papers' loops: docs/results is measured, docs/loops is drawn.

    python tools/draw_loops.py

The pictures have their own background and follow the reader's light or dark theme.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

OUT: Final = Path(__file__).resolve().parent.parent / "docs" / "loops"
_STYLE: Final = """
  .paper{fill:#ffffff} .box{fill:#f2f4f8;stroke:#3b4252;stroke-width:1.5}
  .ours{fill:#dbe9ff;stroke:#1f5fbf;stroke-width:2}
  .asked{fill:#fff0d6;stroke:#a35c00;stroke-width:2;stroke-dasharray:6 3}
  text{fill:#1c2128;font-family:system-ui,sans-serif;font-size:15px} .small{font-size:13px;fill:#4a5361}
  .head{font-size:17px;font-weight:600} .line{fill:none;stroke:#3b4252;stroke-width:1.8} .tip{fill:#3b4252}
  @media (prefers-color-scheme: dark){
  .paper{fill:#161a20} .box{fill:#232a34;stroke:#9aa7b8} .ours{fill:#17345f;stroke:#7fb0ff}
  .asked{fill:#45310f;stroke:#f0b860} text{fill:#e8ecf2} .small{fill:#b4bfcc}
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


def picture(title: str, described: str, height: int, parts: list[Box | Arrow]) -> str:
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


def p2o() -> str:
    boxes = [
        Box(165, 110, ("a group of rollouts", "hard questions: under templates"), "ours", 270),
        Box(470, 110, ("rewards", "the trainer's own"), width=190),
        Box(715, 110, ("advantages", "over the whole group"), width=190),
        Box(715, 250, ("take the template out", "prompt: the question alone (eq. 5)"), "ours", 250),
        Box(430, 250, ("update the weights", "the trainer's own loss"), width=210),
        Box(165, 250, ("which questions are hard?", "mean reward below tau (eq. 4)"), "ours", 250),
        Box(165, 410, ("the reflection model", "reads failures, writes templates"), "asked", 250),
        Box(447, 410, ("gates", "leaks, length, special tokens"), "ours", 214),
        Box(715, 410, ("trial by the current policy", "keep what makes it succeed"), "ours", 230),
    ]
    arrows = [
        Arrow(((300, 110), (375, 110))),
        Arrow(((565, 110), (620, 110))),
        Arrow(((715, 143), (715, 217))),
        Arrow(((590, 250), (535, 250))),
        Arrow(((325, 250), (290, 250))),
        Arrow(((165, 283), (165, 377)), "failures", (175, 335)),
        Arrow(((290, 410), (340, 410))),
        Arrow(((554, 410), (600, 410))),
        Arrow(
            ((715, 443), (715, 490), (18, 490), (18, 110), (30, 110)),
            "templates in use",
            (400, 482),
        ),
    ]
    described = (
        "Rollouts of hard questions run under templates; the gradient is on the bare question; failures "
        "go to a reflection model, whose templates pass gates and a trial."
    )
    return picture(
        "P2O: templates for training, none at test time", described, 515, [*arrows, *boxes]
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


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name, text in {"p2o": p2o(), "inspo": inspo()}.items():
        (OUT / f"{name}.svg").write_text(text, "utf-8", newline="\n")
        print(OUT / f"{name}.svg")


if __name__ == "__main__":
    main()
