"""The card of a fine-tuned embedding model: data, settings, and what it won and lost."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core import replace_text
from ..measure import Comparison
from ..models import CARD, card_head
from ._trainer import Point

CURVE = "training.csv"


def write_card(
    folder: Path,
    about: Mapping[str, Any],
    compared: Sequence[tuple[str, Comparison]],
    curve: Sequence[Point],
) -> None:
    """Write ``README.md`` and the loss curve into a model's folder.

    A model that the first comparison does not prove better is marked so.

    Args:
        folder: The model's folder.
        about: What it was trained on and how, by name.
        compared: Held-out questions by name, with the model against the one before.
        curve: Loss and MRR@10 of unseen questions by step.
    """
    proven = compared[0][1].verdict == "better"
    lines = [*card_head(proven=proven), "# A fine-tuned embedding model", ""]
    if not proven:
        lines += ["**Not proven better** than the model it was trained from: kept on request.", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += ["", "## Held-out questions, before and after", ""]
    lines += ["| questions | n | measure | before | after | difference | 95 % interval | verdict |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for name, one in compared:
        cells = [name, one.n, one.measure, f"{one.mean_a:.3f}", f"{one.mean_b:.3f}"]
        cells += [f"{one.difference:+.3f}", interval_text(one), one.verdict]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    worse = [
        f"{name} ({one.difference:+.3f})" for name, one in compared if (one.difference or 0.0) < 0
    ]
    lines += ["", f"What got worse: {', '.join(worse) or 'nothing that was measured'}."]
    lines += ["", f"The loss of every step is in `{CURVE}`.", "", *_drawn(curve)]
    replace_text(folder / CARD, "\n".join(lines).rstrip() + "\n")
    replace_text(folder / CURVE, curve_csv(curve))


def interval_text(one: Comparison) -> str:
    """The 95 % interval of a difference; empty if there is none."""
    return "" if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"


def curve_csv(curve: Sequence[Point]) -> str:
    """The curve as CSV: step, epoch, loss, MRR@10 of the unseen questions."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["step", "epoch", "loss", "unseen MRR@10"])
    for point in curve:
        cells = (point.loss, point.unseen)
        table.writerow([point.step, point.epoch, *("" if v is None else f"{v:.6g}" for v in cells)])
    return text.getvalue()


def curve_rows(curve: Sequence[Point]) -> list[tuple[int, float | None, float]]:
    """Step, mean loss since the step before, and MRR@10 of unseen questions, by evaluation."""
    rows: list[tuple[int, float | None, float]] = []
    losses: list[float] = []
    for point in curve:
        if point.loss is not None:
            losses.append(point.loss)
        if point.unseen is not None:
            rows.append((point.step, sum(losses) / len(losses) if losses else None, point.unseen))
            losses = []
    return rows


def _drawn(curve: Sequence[Point]) -> list[str]:
    """The curve at each evaluation as a table."""
    lines = ["| step | mean loss | unseen MRR@10 |", "|---|---|---|"]
    for step, loss, unseen in curve_rows(curve):
        shown = "" if loss is None or not math.isfinite(loss) else f"{loss:.3f}"
        lines.append(f"| {step} | {shown} | {unseen:.3f} |")
    return lines
