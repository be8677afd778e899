"""The card of a fine-tuned model: data, settings, gains and losses."""

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
    about: tuple[str, Mapping[str, Any]],
    compared: Sequence[tuple[str, Comparison]],
    curve: Sequence[Point],
) -> None:
    """Write ``README.md`` and the loss curve into a model's folder.

    A model that the first comparison does not prove better is marked as unproven.

    Args:
        folder: The model's folder.
        about: Its title, and facts on training data and settings by name.
        compared: Held-out questions by name, with the model against the one before.
        curve: Loss and MRR@10 of unseen questions by step.
    """
    title, facts = about
    proven = compared[0][1].verdict == "better"
    lines = [*card_head(proven=proven), f"# {title}", ""]
    if not proven:
        lines += ["**Not proven better** than the model it was trained from: kept on request.", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "## Held-out questions, before and after", ""]
    lines += ["| questions | n | measure | before | after | difference | 95 % interval | verdict |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for name, comparison in compared:
        cells = [
            name,
            comparison.n,
            comparison.measure,
            f"{comparison.mean_a:.3f}",
            f"{comparison.mean_b:.3f}",
        ]
        cells += [f"{comparison.difference:+.3f}", interval_text(comparison), comparison.worded]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    worse = [
        f"{name} ({comparison.difference:+.3f})"
        for name, comparison in compared
        if (comparison.difference or 0.0) < 0
    ]
    lines += ["", f"Worse than before: {', '.join(worse) or 'nothing that was measured'}."]
    lines += ["", f"The loss of every step is in `{CURVE}`.", "", *_curve_table(curve)]
    replace_text(folder / CARD, "\n".join(lines).rstrip() + "\n")
    replace_text(folder / CURVE, curve_csv(curve))


def interval_text(comparison: Comparison) -> str:
    """Return the 95 % interval of a difference; empty if there is none."""
    return "" if comparison.low is None else f"{comparison.low:+.3f} to {comparison.high:+.3f}"


def curve_csv(curve: Sequence[Point]) -> str:
    """Return the curve as CSV: step, epoch, loss, MRR@10 of the unseen questions."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["step", "epoch", "loss", "unseen MRR@10"])
    for point in curve:
        cells = (point.loss, point.unseen)
        table.writerow([point.step, point.epoch, *("" if v is None else f"{v:.6g}" for v in cells)])
    return text.getvalue()


def curve_rows(curve: Sequence[Point]) -> list[tuple[int, float | None, float]]:
    """Return step, mean loss since the last evaluation, and MRR@10 of unseen questions."""
    rows: list[tuple[int, float | None, float]] = []
    losses: list[float] = []
    for point in curve:
        if point.loss is not None:
            losses.append(point.loss)
        if point.unseen is not None:
            rows.append((point.step, sum(losses) / len(losses) if losses else None, point.unseen))
            losses = []
    return rows


def _curve_table(curve: Sequence[Point]) -> list[str]:
    """Return the curve at each evaluation as a table."""
    lines = ["| step | mean loss | unseen MRR@10 |", "|---|---|---|"]
    for step, loss, unseen in curve_rows(curve):
        loss_text = "" if loss is None or not math.isfinite(loss) else f"{loss:.3f}"
        lines.append(f"| {step} | {loss_text} | {unseen:.3f} |")
    return lines
