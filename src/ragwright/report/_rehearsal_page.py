"""A rehearsal as one HTML file without scripts: both answers side by side, changed words marked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING, Any

from ..core import counted
from ..project import setting_text
from ..rehearsal import REASONS, rehearsal_shares, share_meanings
from ._page import report_asset, stylesheet
from ._rehearsal import rehearsal_headline, totals, unseen_changes

if TYPE_CHECKING:
    from jinja2 import Template

    from ..rehearsal import AnswerChange, Rehearsal, RehearsalVerdict

_SHOWN = 20
"""Changes of a group that are not folded."""

_DOCUMENTS = 100
"""Documents that are listed."""

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONG = 4_000
"""Words from which only the whole text is marked: the comparison takes quadratic time."""

Marked = Sequence[tuple[str, str]]
"""(``del``, ``ins`` or empty, text) of the pieces of an answer."""


@dataclass(frozen=True, slots=True)
class _Item:
    change: AnswerChange
    before: Marked
    after: Marked
    served: str


def marked_words(before: str, after: str) -> tuple[Marked, Marked]:
    """Return both texts in pieces; those that only one of them has are marked."""
    if before == after:
        return [("", before)], [("", after)]
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > _LONG:
        return [("del", before)], [("ins", after)]
    left: list[tuple[str, str]] = []
    right: list[tuple[str, str]] = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = kind == "equal"
        if a < b:
            left.append(("" if same else "del", "".join(old[a:b])))
        if c < d:
            right.append(("" if same else "ins", "".join(new[c:d])))
    return left, right


def rehearsal_page(rehearsal: Rehearsal, verdict: RehearsalVerdict | None = None) -> str:
    """Return the page; it needs no network and runs no script."""
    tables = [
        *_table("gate", "Gate", ("rule", "state", "reached", "of"), _check_rows(verdict)),
        *_table("settings", "Settings", ("key", "now", "after"), _setting_rows(rehearsal)),
        *_table(
            "documents",
            "Documents",
            ("document", "state"),
            _document_rows(rehearsal),
        ),
        *_table("readers", "Readers", _READER_HEAD, _reader_rows(rehearsal)),
        *_table(
            "drafts",
            "Drafts made from documents that change",
            ("outputs", "client", "date", "documents"),
            [
                (
                    ", ".join(draft.outputs),
                    draft.client,
                    draft.at[:10],
                    ", ".join(f"{d.document_id} ({d.state})" for d in draft.documents),
                )
                for draft in rehearsal.drafts
            ],
        ),
    ]
    text = _page_template().render(
        rehearsal=rehearsal,
        headline=rehearsal_headline(rehearsal),
        mark=_headline_mark(rehearsal, verdict),
        sentences=_sentences(rehearsal, verdict),
        facts=_page_facts(rehearsal),
        tables=tables,
        sections=[*((name, title) for name, title, *_ in tables), ("groups", "What changes")],
        groups=[_group(rehearsal, at) for at in range(len(rehearsal.groups))],
        style=stylesheet(),
    )
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


@cache
def _page_template() -> Template:
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader({"rehearsal.html": report_asset("rehearsal.html")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("rehearsal.html")


def _table(
    name: str, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[tuple[str, str, Sequence[str], Sequence[Sequence[str]]]]:
    return [(name, title, head, rows)] if rows else []


_READER_HEAD = ("readers", "filters", "documents", "questions with other passages")


def _check_rows(verdict: RehearsalVerdict | None) -> list[Sequence[str]]:
    checks = () if verdict is None else verdict.checks
    return [
        (
            check.rule,
            check.state,
            "nothing to count" if check.share is None else f"{100 * check.share:.3g} %",
            str(check.of),
        )
        for check in checks
    ]


def _document_rows(rehearsal: Rehearsal) -> list[Sequence[str]]:
    rows = [(change.document_id, change.state) for change in rehearsal.documents]
    more = len(rows) - _DOCUMENTS
    return [*rows[:_DOCUMENTS], *([(f"… {more} more", "")] if more > 0 else [])]


def _setting_rows(rehearsal: Rehearsal) -> list[Sequence[str]]:
    return [
        (key, *(setting_text(key, value) for value in values))
        for key, values in rehearsal.settings.items()
    ]


def _reader_rows(rehearsal: Rehearsal) -> list[Sequence[str]]:
    return [
        (
            view.group.name,
            view.group.shown,
            view.error or f"+{len(view.documents_gained)} −{len(view.documents_lost)}",
            str(len({*view.questions_gained, *view.questions_lost})),
        )
        for view in rehearsal.readers
    ]


def _headline_mark(rehearsal: Rehearsal, verdict: RehearsalVerdict | None) -> tuple[str, str]:
    """Class and sign of the headline: of the gate, or of the rows with gold."""
    if verdict is not None:
        signs = {"passed": ("better", "▲"), "failed": ("worse", "▼")}
        return signs.get(verdict.state, ("unproven", "◆"))
    if any(change.worse for change in rehearsal.changes):
        return "worse", "▼"
    return "plain", "●"


def _sentences(rehearsal: Rehearsal, verdict: RehearsalVerdict | None) -> list[str]:
    sentences = [] if verdict is None else [f"Gate: {verdict.state}."]
    meanings = share_meanings()
    for name, (part, whole) in rehearsal_shares(rehearsal).items():
        if part and name != "changed":
            meaning = meanings[name]
            sentences.append(f"{meaning[0].upper()}{meaning[1:]}: {part} of {whole}.")
    if unseen := unseen_changes(rehearsal):
        stay = counted(unseen, "answer stays", "answers stay")
        sentences.append(f"{stay} as before, from other passages.")
    return sentences


def _page_facts(rehearsal: Rehearsal) -> list[tuple[str, str]]:
    facts = [("questions", str(len(rehearsal.changes)))]
    facts.append(("asked in all", str(sum(c.question.asked for c in rehearsal.changes))))
    if rehearsal.documents:
        states = Counter(change.state for change in rehearsal.documents)
        listed = ", ".join(f"{count} {name}" for name, count in states.items())
        facts.append(("documents", listed))
    if not rehearsal.searched_only:
        values: Mapping[str, tuple[float | None, float | None]] = totals(rehearsal)
        old, new = values["cost"]
        if old is not None and new is not None:
            facts.append(("cost of all answers", f"{old:.4f} → {new:.4f}"))
        slow, slower = values["seconds"]
        facts.append(("seconds of all model calls", f"{slow or 0:.1f} → {slower or 0:.1f}"))
    if rehearsal.measures:
        facts.append(("measures", ", ".join(rehearsal.measures)))
    return facts


def _group(rehearsal: Rehearsal, at: int) -> dict[str, Any]:
    group = rehearsal.groups[at]
    items = [_item(change) for change in group.changes]
    times = f", asked {group.asked} times" if group.asked > len(items) else ""
    return {
        "title": " + ".join(group.reasons),
        "size": f"{counted(len(items), 'question', 'questions')}{times}",
        "meaning": "; ".join(REASONS[kind] for kind in group.reasons),
        "shown": items[:_SHOWN],
        "folded": items[_SHOWN:],
    }


def _item(change: AnswerChange) -> _Item:
    before, after = marked_words(change.before.text, change.after.text)
    served = change.question.served
    known = {change.before.text.strip(), change.after.text.strip(), ""}
    return _Item(change, before, after, "" if served.strip() in known else served)
