"""Sentences of answers that are counted, and of lists, in the language of the question."""

from __future__ import annotations

from collections.abc import Sequence

from ._corpus_read import Item
from ._forms import Phrases, phrases_for
from ._units import UnitQuestion, UnitTally


def units_text(question: UnitQuestion, tallies: Sequence[UnitTally], shown: int) -> str:
    """The number of units that match a question, and the first ``shown`` with their marks."""
    phrases = Phrases(question.language)
    matches = [unit for tally in tallies for unit in tally.matches]
    total = sum(tally.total for tally in tallies)
    if not question.topic:
        forms = phrases.forms("there")
        units = [f"{tally.total} {_unit_word(phrases, tally)}" for tally in tallies]
        head = forms[total != 1].format(units=phrases.text("and").join(units))
        if question.counts:
            return f"{head}."
    elif not matches and len(tallies) == 1 and total > 1:
        return phrases.text(f"no_{tallies[0].kind}", total=total, topic=question.topic)
    else:
        parts = [
            phrases.text(
                "of_all",
                n=len(tally.matches),
                total=tally.total,
                units=_unit_word(phrases, tally, of_all=True),
            )
            for tally in tallies
        ]
        singular = len(matches) == 1 or total == 1
        counts = phrases.text("and").join(parts)
        head = phrases.forms("hold")[not singular].format(units=counts, topic=question.topic)
        if not matches:
            return f"{head}."
    names = []
    for number, unit in enumerate(matches[:shown], 1):
        paged = unit.page is not None and question.unit != "document"
        page = phrases.text("page_mark", n=unit.page) if paged else ""
        names.append(f"{unit.hit.title or unit.hit.source}{page} [{number}]")
    return _listing_text(head, names, len(matches), phrases)


def _unit_word(phrases: Phrases, tally: UnitTally, *, of_all: bool = False) -> str:
    singular, plural, plural_of = phrases.forms(tally.kind)
    if tally.total == 1:
        return singular
    return plural_of if of_all else plural


def items_text(
    question: str,
    items: Sequence[Item],
    marks: Sequence[Sequence[int]],
    total: int,
    *,
    head: str = "found",
    part: tuple[int, int] | None = None,
) -> str:
    """The items of a list with their marks, below their total number.

    Args:
        question: Its language is that of the sentences.
        items: The items to show.
        marks: The citation marks of each.
        total: The number of all items.
        head: Sentence of the number: ``found``, or ``least`` or ``at_least`` where there may be
            more.
        part: In how many of how many documents there are items, where not in all.
    """
    phrases = phrases_for(question)
    line = phrases.text(head, n=total)
    if part is not None:
        line = phrases.text("in_part", head=line, n=part[0], total=part[1])
    names = []
    for item, numbers in zip(items, marks, strict=True):
        count = len(item.places)
        often = f" ({phrases.text('places', n=count)})" if count > 1 else ""
        names.append(f"{item.text}{often} {''.join(f'[{n}]' for n in numbers)}")
    return _listing_text(line, names, total, phrases)


def _listing_text(head: str, names: Sequence[str], total: int, phrases: Phrases) -> str:
    lines = [f"{head}:", *(f"- {name}" for name in names)]
    if total > len(names):
        lines.append(phrases.text("more", n=total - len(names)))
    return "\n".join(lines)
