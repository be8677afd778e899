"""What a verdict rests on: where its questions come from, and whether anything is left to gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...core import Row, counted
from ...measure import Summary
from ._clusters import QUESTION, shared_by
from ._results import RowResult

CEILING = 0.95
"""Share of a scale from which on the current settings leave hardly anything to gain."""

ADVICE = "Put 30 to 50 of those into the confirm split."


def questions_of(rows: Iterable[Row | RowResult]) -> str:
    """``generated questions`` if a program made all of them; empty if people asked all."""
    made, people = _origins(rows)
    if not made:
        return ""
    return "partly generated questions" if people else "generated questions"


def grounds(rows: Iterable[Row | RowResult], current: Iterable[Summary] = ()) -> tuple[str, ...]:
    """The sentences that stand beside every verdict on these rows.

    Args:
        rows: Rows of the verdict, or their results.
        current: Summaries of the current settings, whose ceiling is named.
    """
    made, people = _origins(rows)
    sentences = []
    if made:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(made.items()))
        total = made.total()
        these = f"These {counted(total, 'question')}"
        if people:
            these = f"{total:,} of these {total + people:,} questions"
        were = "was" if total + people == 1 else "were"
        sentences.append(
            f"{these} {were} made from the passages ({kinds}). A difference here is not shown for "
            f"people's questions. {ADVICE}"
        )
    for summary in current:
        mean, scale = summary.deciding[0], summary.scale
        if mean is None or scale is None or scale.high is None:
            continue
        share = (mean - scale.low) / (scale.high - scale.low)
        if (share if scale.higher_is_better else 1 - share) >= CEILING:
            sentences.append(
                f"The current settings have {summary.measure} {mean:.4f} already, and "
                f"{scale.high if scale.higher_is_better else scale.low:g} is the best: these "
                "questions hardly show what is better."
            )
    return tuple(sentences)


def _origins(rows: Iterable[Row | RowResult]) -> tuple[Counter[str], int]:
    """Generated questions by kind, and the number of people's; personas count once."""
    kinds: dict[str, str] = {}
    for row in rows:
        name = row.id if isinstance(row, Row) else row.row_id
        known = row if isinstance(row, Row) else row.row
        facts = shared_by(known) if known is not None else getattr(row, "shared", {})
        generated = "".join(facts.get("generated", ())).lower() in ("true", "yes", "1")
        kind = " ".join(facts.get("kind", ())) or "model"
        kinds["".join(facts.get(QUESTION, (name,)))] = kind if generated else ""
    return Counter(filter(None, kinds.values())), sum(not kind for kind in kinds.values())
