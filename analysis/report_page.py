"""What a report consists of: questions, answers with their standing, pictures and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

AGREES, DIFFERS, MEASURED, INCONCLUSIVE = "agrees", "differs", "measured", "inconclusive"

#: How an answer stands to what was expected, and what that means.
STANDINGS = {
    AGREES: "what was expected lies within the error",
    DIFFERS: "what was expected lies outside the error",
    MEASURED: "nothing is expected; the number stands with its error",
    INCONCLUSIVE: "the results do not decide",
}
#: How to have a limit to compare with.
LIMITLESS = "route by a rule that has a limit"
#: A question with more rows than this is answered by counts, and row by row in its table alone.
MOST_ANSWERS = 8
#: Standard errors from what was expected beyond which a result differs: 95 % intervals miss now and then.
FAR = 4.0


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A sentence with its standing, a key of `STANDINGS`; `part` is the row it is about, if one."""

    text: str
    standing: str
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

    It is asked of a sweep that stores all that it `needs`, as "group/variable"; else `cure` says how to ask.
    """

    name: str
    question: str
    answer: Callable[[xr.DataTree, Draft], None]
    needs: Sequence[str] = ()
    cure: str = ""

    def is_asked(self, tree: xr.DataTree) -> bool:
        """Whether the sweep stored what the question is about."""
        pairs = (path.split("/") for path in self.needs)
        return all(group in tree.children and name in tree[group].data_vars for group, name in pairs)


@dataclass(kw_only=True)
class Draft:
    """A section in the making."""

    method: str = ""
    answers: list[Answer] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def say(self, text: str, standing: str, part: str = "") -> None:
        """Add an answer."""
        self.answers.append(Answer(text=text, standing=standing, part=part))

    def draw(self, name: str, make: Callable[[], Figure], caption: str, alternative: str) -> None:
        """Add a picture, or a note of why it cannot be drawn."""
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

    def shorten(self, summary: Callable[[Sequence[Answer]], str]) -> None:
        """Put counts in place of answers of rows if they are many; what differs is still named."""
        if len(self.answers) <= MOST_ANSWERS:
            return
        counts = {key: sum(one.standing == key for one in self.answers) for key in STANDINGS}
        standing = max((INCONCLUSIVE, AGREES, MEASURED), key=lambda key: counts[key])
        odd = [one for one in self.answers if one.standing == DIFFERS]
        self.answers = [Answer(text=summary(self.answers), standing=standing), *odd[:MOST_ANSWERS]]
        if len(odd) > MOST_ANSWERS:
            self.notes.append(f"{len(odd) - MOST_ANSWERS} more rows that differ are in the table alone.")


def compared(value: float, stderr: float, interval: tuple[float, float], expected: float) -> str:
    """Return the standing of a fitted number to what was expected of it.

    Examples
    --------
    >>> compared(-0.49, 0.01, (-0.51, -0.47), -0.5), compared(-0.47, 0.01, (-0.49, -0.45), -0.5)
    ('agrees', 'inconclusive')
    """
    if interval[0] <= expected <= interval[1]:
        return AGREES
    return DIFFERS if abs(value - expected) > FAR * stderr else INCONCLUSIVE


def answered(topic: Topic, tree: xr.DataTree) -> Section:
    """Return the section of a topic; where the results cannot answer, it says why."""
    from sweep.errors import AccuracyError

    draft = Draft()
    try:
        topic.answer(tree, draft)
    except (ValueError, OSError, AccuracyError) as error:  # OSError: a trace whose file is elsewhere
        draft.say(f"Not to be told from these results: {error}.", INCONCLUSIVE)
    return Section(name=topic.name, question=topic.question, **vars(draft))


def undecided(sections: Iterable[Section]) -> list[tuple[Section, Answer]]:
    """Return the answers that are inconclusive, with their sections."""
    return [(one, each) for one in sections for each in one.answers if each.standing == INCONCLUSIVE]
