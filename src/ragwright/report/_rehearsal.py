"""A rehearsal as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

from ..core import counted
from ..rehearsal import REASONS, rehearsal_shares
from ._text import WIDTH

if TYPE_CHECKING:
    from ..rehearsal import AnswerChange, Passage, Rehearsal, RehearsalVerdict, SideAnswer

_SHOWN = 5
"""Changes of a group that the text shows."""


def rehearsal_headline(rehearsal: Rehearsal) -> str:
    """Return how much changes, in a sentence."""
    changed = [change for change in rehearsal.changes if change.changed]
    whole = counted(len(rehearsal.changes), "question", "questions")
    if not changed:
        return f"no answer changes ({whole})"
    what = "passages" if rehearsal.searched_only else "answers"
    verb = "changes" if len(changed) == 1 else "change"
    return f"{len(changed)} of {whole} {verb} ({what} compared)"


def unseen_changes(rehearsal: Rehearsal) -> int:
    """Return the number of answers that stay as they are although their passages change."""
    return sum(not change.changed and "passages" in change.effects for change in rehearsal.changes)


def effect_counts(rehearsal: Rehearsal) -> Mapping[str, int]:
    """Return effect -> number of questions that have it, most frequent first."""
    counts = Counter(effect for change in rehearsal.changes for effect in change.effects)
    return dict(counts.most_common())


def totals(rehearsal: Rehearsal) -> Mapping[str, tuple[float | None, float | None]]:
    """Return cost and seconds of all answers, before and after; None where a cost is unknown."""
    pairs = [
        (c.before, c.after) for c in rehearsal.changes if not (c.before.error or c.after.error)
    ]

    def cost(answers: Sequence[SideAnswer]) -> float | None:
        known = [answer.cost for answer in answers if answer.cost is not None]
        return sum(known) if len(known) == len(answers) else None

    old, new = [before for before, _ in pairs], [after for _, after in pairs]
    return {
        "cost": (cost(old), cost(new)),
        "seconds": (sum(a.seconds for a in old), sum(a.seconds for a in new)),
    }


def rehearsal_table(
    rehearsal: Rehearsal, verdict: RehearsalVerdict | None = None, width: int = 0
) -> str:
    """Return the headline, what would change by reason, readers, drafts, the gate and notes."""
    text = width or WIDTH
    blocks = [_head(rehearsal, text)]
    for group in rehearsal.groups:
        name = " + ".join(group.reasons) or "no reason"
        asked = counted(len(group.changes), "question", "questions")
        times = f", asked {group.asked} times" if group.asked > len(group.changes) else ""
        lines = [f"{name}: {asked}{times}"]
        lines += [line for change in group.changes[:_SHOWN] for line in _change_lines(change, text)]
        if len(group.changes) > _SHOWN:
            lines.append(f"  … {len(group.changes) - _SHOWN} more: --json or -o FILE.html")
        blocks.append("\n".join(lines))
    blocks += [block for block in (_readers(rehearsal), _drafts(rehearsal)) if block]
    tail = []
    if verdict is not None:
        tail += [_check_line(verdict, at) for at in range(len(verdict.checks))]
        tail.append(f"gate: {verdict.state}")
    tail += [fill(f"note: {note}", text, subsequent_indent="  ") for note in rehearsal.notes]
    return "\n\n".join([*blocks, *(["\n".join(tail)] if tail else [])])


def _head(rehearsal: Rehearsal, width: int) -> str:
    lines = [fill(f"change: {rehearsal.name}", width, subsequent_indent="  ")]
    lines.append(rehearsal_headline(rehearsal))
    if unseen := unseen_changes(rehearsal):
        lines.append(f"{counted(unseen, 'answer stays', 'answers stay')}, from other passages")
    counts = effect_counts(rehearsal)
    if counts:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        lines.append(fill(f"effects: {listed}", width, subsequent_indent="  "))
    if rehearsal.documents:
        states = Counter(change.state for change in rehearsal.documents)
        lines.append("documents: " + ", ".join(f"{n} {name}" for name, n in states.items()))
    if not rehearsal.searched_only:
        (old, new), (slow, slower) = totals(rehearsal).values()
        if old is not None and new is not None and (old or new):
            lines.append(f"cost of all answers: {old:.4f} now, {new:.4f} after")
        if slow or slower:
            lines.append(f"time of all model calls: {slow:.1f} s now, {slower:.1f} s after")
    return "\n".join(lines)


def _change_lines(change: AnswerChange, width: int) -> list[str]:
    question = shorten(change.question.row.user_input, max(20, width - 24), placeholder=" …")
    times = f"{change.question.asked}×  " if change.question.asked > 1 else ""
    lines = [f"  {times}{question}"]
    moves = [
        f"{name} {value:+.3g}" for name, value in (*change.worse.items(), *change.better.items())
    ]
    listed = ", ".join((*change.effects, *moves))
    lines.append(fill(f"     {listed}", width, subsequent_indent="       "))
    for reason in change.reasons:
        evidence = f"     {'why' if reason.direct else 'also'}: {reason.kind}: {reason.evidence}"
        lines.append(fill(evidence, width, subsequent_indent="       "))
    if change.before.text.strip() != change.after.text.strip():
        texts = [answer.text or f"({answer.error})" for answer in (change.before, change.after)]
        for name, shown in zip(("now", "after"), _parted_lines(texts, width - 14), strict=True):
            lines.append(f"     {name + ':':<6} {shown}")
    return lines


def _parted_lines(texts: Sequence[str], width: int) -> list[str]:
    """One line of each text, which begins shortly before the first difference if that is late."""
    plain = [" ".join(text.split()) for text in texts]
    pairs = enumerate(zip(*plain, strict=False))
    same = next((n for n, (first, second) in pairs if first != second), min(map(len, plain)))
    start = plain[0].rfind(" ", 0, same - width // 4) + 1 if same > width // 2 else 0
    head = "… " if start else ""
    return [shorten(head + text[start:], width, placeholder=" …") for text in plain]


def _readers(rehearsal: Rehearsal) -> str:
    lines = []
    for view in rehearsal.readers:
        if view.error:
            lines.append(f"  {view.group.name}: not comparable: {view.error}")
            continue
        lines.append(
            f"  {view.group.name} ({view.group.shown}): "
            f"+{len(view.documents_gained)} -{len(view.documents_lost)} documents; other passages "
            f"for {len({*view.questions_gained, *view.questions_lost})} questions"
        )
    return "\n".join(["readers:", *lines]) if lines else ""


def _drafts(rehearsal: Rehearsal) -> str:
    lines = []
    for draft in rehearsal.drafts[:_SHOWN]:
        names = ", ".join(f"{d.document_id} ({d.state})" for d in draft.documents)
        lines.append(f"  {', '.join(draft.outputs)} of {draft.at[:10]} {draft.client}: {names}")
    if len(rehearsal.drafts) > _SHOWN:
        lines.append(f"  … {len(rehearsal.drafts) - _SHOWN} more")
    return "\n".join(["drafts made from documents that change:", *lines]) if lines else ""


def _check_line(verdict: RehearsalVerdict, at: int) -> str:
    check = verdict.checks[at]
    share = "nothing to count" if check.share is None else f"{100 * check.share:.3g} %"
    return f"{check.state:<9} {check.rule}  {share} of {check.of}"


def rehearsal_json(rehearsal: Rehearsal, verdict: RehearsalVerdict | None = None) -> dict[str, Any]:
    """Return the document of ``rehearse --json``.

    ``{"change", "as_groups", "questions", "changed", "effects", "shares", "settings", "documents",
    "groups", "changes", "readers", "drafts", "gate", "notes", "runs"}``; ``changes`` holds every
    question whose answers differ, with both answers, ``effects`` and ``reasons``.
    """
    shares = {
        name: {"share": part / whole if whole else None, "part": part, "of": whole}
        for name, (part, whole) in rehearsal_shares(rehearsal).items()
    }
    return {
        "change": rehearsal.name,
        "as_groups": None if rehearsal.as_groups is None else list(rehearsal.as_groups),
        "questions": len(rehearsal.changes),
        "changed": sum(change.changed for change in rehearsal.changes),
        "searched_only": rehearsal.searched_only,
        "measures": list(rehearsal.measures),
        "effects": dict(effect_counts(rehearsal)),
        "shares": shares,
        "totals": {
            name: {"before": before, "after": after}
            for name, (before, after) in totals(rehearsal).items()
        },
        "settings": {
            key: {"before": old, "after": new} for key, (old, new) in rehearsal.settings.items()
        },
        "documents": [asdict(change) for change in rehearsal.documents],
        "groups": [
            {
                "reasons": list(group.reasons),
                "meaning": [REASONS[kind] for kind in group.reasons],
                "asked": group.asked,
                "questions": [change.question.row.id for change in group.changes],
            }
            for group in rehearsal.groups
        ],
        "changes": [_change_json(change) for change in rehearsal.changes if change.effects],
        "readers": [asdict(view) for view in rehearsal.readers],
        "drafts": [asdict(draft) for draft in rehearsal.drafts],
        "gate": None if verdict is None else asdict(verdict),
        "notes": list(rehearsal.notes),
        "runs": list(rehearsal.runs),
    }


def _change_json(change: AnswerChange) -> dict[str, Any]:
    row = change.question.row
    return {
        "id": row.id,
        "question": row.user_input,
        "persona": row.persona_name,
        "asked": change.question.asked,
        "effects": list(change.effects),
        "reasons": [asdict(reason) for reason in change.reasons],
        "before": asdict(change.before),
        "after": asdict(change.after),
        "served": change.question.served,
        "lost_citations": [_passage_json(passage) for passage in change.lost],
        "worse": dict(change.worse),
        "better": dict(change.better),
    }


def _passage_json(passage: Passage) -> dict[str, Any]:
    return asdict(passage)
