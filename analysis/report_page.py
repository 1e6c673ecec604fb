"""What a report consists of: questions, answers with their standing, pictures and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from analysis.drawing import STYLES
from analysis.evidence import is_far

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


class Standing(StrEnum):
    """How an answer stands to what was expected."""

    AGREES = "agrees"
    DIFFERS = "differs"
    MEASURED = "measured"
    INCONCLUSIVE = "inconclusive"


#: What each standing means.
STANDINGS = {
    Standing.AGREES: "what was expected lies within the error",
    Standing.DIFFERS: "what was expected lies outside the error",
    Standing.MEASURED: "nothing is expected; the number stands with its error",
    Standing.INCONCLUSIVE: "the results do not decide",
}
#: A question with more rows than this is answered by counts, and row by row in its table alone.
MOST_ANSWERS = 8


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A sentence with its standing; `part` is the row it is about, if one."""

    text: str
    standing: Standing
    part: str = ""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure with its caption and what it shows in words; `name` is the stem of its file."""

    name: str
    figure: Figure
    caption: str
    alternative: str


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table: the first cell of each row heads it; `words` tells that cells are text, not numbers."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False


@dataclass(frozen=True, kw_only=True)
class Section:
    """One question: how it was asked, its answers, pictures, tables, and what had to be left out."""

    name: str
    question: str
    method: str
    answers: Sequence[Answer]
    pictures: Sequence[Picture] = ()
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A question and what answers it from results; that raises ValueError where they cannot.

    It is asked of a sweep that stores all that it `needs`, of `analysis.stores.CURES`.
    """

    name: str
    question: str
    answer: Callable[[xr.DataTree, Draft], None]
    needs: Sequence[str] = ()


@dataclass(kw_only=True)
class Draft:
    """A section in the making."""

    method: str = ""
    answers: list[Answer] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def say(self, text: str, standing: Standing, part: str = "") -> None:
        """Add an answer."""
        self.answers.append(Answer(text=text, standing=standing, part=part))

    def draw(
        self, name: str, make: Callable[[], Figure], caption: str, alternative: str, *, series: int = 1
    ) -> None:
        """Add a picture of some series that share their axes, or a note of why it cannot be drawn."""
        if series > len(STYLES):
            self.notes.append(f"The figure would hold {series} series, more than can be told apart.")
            return
        try:
            figure = make()
        except ValueError as error:
            self.notes.append(f"Figure left out: {error}.")
            return
        self.pictures.append(Picture(name=name, figure=figure, caption=caption, alternative=alternative))

    def try_to(self, what: str, make: Callable[[], None]) -> None:
        """Do a part of the section, or note why it cannot be done."""
        try:
            make()
        except ValueError as error:
            self.notes.append(f"{what} left out: {error}.")

    def shorten(self, summary: str) -> None:
        """Put counts in place of answers of rows if they are many; what differs is still named.

        `summary` may hold {rows}, {agree} and {decided}: how many there are, agree, and are not inconclusive.
        """
        rows = len(self.answers)
        if rows <= MOST_ANSWERS:
            return
        counts = Counter(one.standing for one in self.answers)
        standing = max(
            (Standing.INCONCLUSIVE, Standing.AGREES, Standing.MEASURED), key=lambda one: counts[one]
        )
        agree, decided = counts[Standing.AGREES], rows - counts[Standing.INCONCLUSIVE]
        text = summary.format(rows=rows, agree=agree, decided=decided)
        odd = [one for one in self.answers if one.standing == Standing.DIFFERS]
        self.answers = [Answer(text=text, standing=standing), *odd[:MOST_ANSWERS]]
        if len(odd) > MOST_ANSWERS:
            self.notes.append(f"{len(odd) - MOST_ANSWERS} more rows that differ are in the table alone.")


def compared(value: float, stderr: float, interval: tuple[float, float], expected: float) -> Standing:
    """Return the standing of a fitted number to what was expected of it.

    The interval is Student's, as `analysis.evidence.is_far` has it.

    Examples
    --------
    >>> print(compared(-0.49, 0.01, (-0.51, -0.47), -0.5), compared(-0.47, 0.01, (-0.49, -0.45), -0.5))
    agrees inconclusive
    """
    if interval[0] <= expected <= interval[1]:
        return Standing.AGREES
    return Standing.DIFFERS if is_far(value, stderr, interval, expected) else Standing.INCONCLUSIVE


def answered(topic: Topic, tree: xr.DataTree) -> Section:
    """Return the section of a topic; where the results cannot answer, it says why."""
    from sweep.errors import AccuracyError

    draft = Draft()
    try:
        topic.answer(tree, draft)
    except (ValueError, OSError, AccuracyError) as error:  # OSError: a kernel kept on a full disk
        draft.say(f"Not to be told from these results: {error}.", Standing.INCONCLUSIVE)
    return Section(name=topic.name, question=topic.question, **vars(draft))


def undecided(sections: Iterable[Section]) -> list[tuple[Section, Answer]]:
    """Return the answers that are inconclusive, with their sections."""
    return [(one, each) for one in sections for each in one.answers if each.standing == Standing.INCONCLUSIVE]
