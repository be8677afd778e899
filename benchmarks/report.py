"""A report of a large study: its size, the time to make it, the time to open it.

    python -m benchmarks.report                       # 500 trials x 200 rows; about two minutes
    python -m benchmarks.report --trials 50 --rows 40 # smaller
    python -m benchmarks.report --keep report.html    # the file itself, to look at
    python -m benchmarks.report --publish             # writes docs/results/

The study is synthetic, and written through the real run store: passages are cut from the guide at
five sizes, a question retrieves the same passages at every top_k, prompts have real instructions,
answers are sentences of the passages with some words replaced so that trials differ, and two judged
measures give reasons that quote the answer. No model scores anything; only the file's size and
speed are measured.

Opening is measured in Chromium (headless, a new profile each time, from disk, the middle of five):
``first paint`` and ``page ready`` are the browser's own marks; ``leaderboard`` is when its first
line is in the page and painted; ``rows`` is when the list of rows is filled.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.publish import ROOT, Cell, Section, Table, publish, section_lines
from ragwright.core import GoldSpan, Row, Score, Usage
from ragwright.experiment import (
    Evaluation,
    Made,
    RowResult,
    evaluation_of,
    result_body,
    trial_body,
    trial_result,
)
from ragwright.flow import RunRow, Runs
from ragwright.measure import parse_measures
from ragwright.project import ProjectFolder
from ragwright.report import Report, report_subject

MEASURES = ("TokenF1", "KPrecision", "Faithfulness", "AnswerRelevance")
AXES: dict[str, list[Any]] = {
    "chunk.size": [100, 200, 400, 800, 1600],
    "retrieve.top_k": [2, 3, 4, 6, 8],
    "prompt.without": [[], ["role"], ["debris"], ["length"], ["style"]],
    "answer.model": ["model-a", "model-b", "model-c", "model-d"],
}
_INSTRUCTIONS = (
    "You answer for the {persona} team. Read the context and tailor the answer to that team.\n"
    "Ignore formatting debris and stray citations in the context.\n"
    "Use only the context. Find the key information that answers the question.\n"
    "If the context is not enough, say so plainly, then give the closest answer it supports.\n"
    "Answer in readable sentences, without lists or heavy formatting.\n\n"
)


@dataclass(frozen=True)
class Opening:
    """Milliseconds until each moment, after the browser was told to open the file."""

    first_paint: float
    ready: float
    leaderboard: float
    rows: float
    row: float
    chart: float


@cache
def pages() -> tuple[tuple[str, str], ...]:
    """Names and texts of the guide."""
    guide = ROOT / "docs" / "guide"
    return tuple((path.name, path.read_text("utf-8")) for path in sorted(guide.glob("*.md")))


@cache
def passages(size: int) -> tuple[GoldSpan, ...]:
    """The guide cut into passages of about so many tokens."""
    step = size * 4
    return tuple(
        GoldSpan(name, at, min(at + step, len(text)), text[at : at + step])
        for name, text in pages()
        for at in range(0, len(text), step)
    )


@cache
def words() -> tuple[str, ...]:
    """Words of the guide, as often as they occur."""
    return tuple(word for _, text in pages() for word in re.findall(r"[a-z]{4,}", text))


@cache
def retrieved(row: int, size: int) -> tuple[GoldSpan, ...]:
    """What a question finds, best first: equal for every trial that cuts alike."""
    known = passages(size)
    return tuple(random.Random(f"{row} {size}").sample(known, min(8, len(known))))


def results(values: dict[str, Any], rows: int) -> Iterator[RowResult]:
    """Made-up results of a trial, row by row."""
    for at in range(rows):
        draw = random.Random(f"{values} {at}")
        persona = ("engineer", "marketing")[at % 2]
        hits = retrieved(at, values.get("chunk.size", 400))[: values.get("retrieve.top_k", 5)]
        question = f"What does the guide say about {' '.join(draw_words(at, 6))}?"
        answer = altered(sentences(hits, draw, 3), draw)
        context = "\n\n".join(
            f"[{n}] {hit.document_id}\n{hit.text.strip()}" for n, hit in enumerate(hits, 1)
        )
        prompt = (
            ("system", _INSTRUCTIONS.format(persona=persona)),
            ("user", f"Context:\n{context}\n\nQuestion: {question}\nAssistant:"),
        )
        row = Row(
            f"q{at:03d}",
            question,
            answer,
            altered(sentences(retrieved(at, 400)[:1], random.Random(at), 1), random.Random(at)),
            tuple(hit.text for hit in hits),
            retrieved_context_ids=tuple(hit.document_id for hit in hits),
            retrieved_spans=hits,
            persona_name=persona,
            metadata={"model": str(values.get("answer.model", "model-a")), "route": "index"},
        )
        usage = Usage(1, len(context) // 4, len(answer) // 4, draw.random() / 100, draw.random())
        tokens = sum(len(hit.text) // 4 for hit in hits)
        generated = Made(prompt, usage, tokens)
        ranking = tuple(hit.document_id for hit in hits)
        yield RowResult(row.id, ranking, tuple(scores(answer, draw)), row, generated)


def draw_words(seed: int, count: int) -> list[str]:
    """Words of the guide."""
    return random.Random(seed).choices(words(), k=count)


def sentences(hits: Sequence[GoldSpan], draw: random.Random, count: int) -> str:
    """Sentences of passages."""
    candidates = [
        part.strip() for hit in hits for part in hit.text.split(". ") if 40 < len(part) < 240
    ]
    return (
        ". ".join(draw.sample(candidates, min(count, len(candidates))))
        or "The passages do not say."
    )


def altered(text: str, draw: random.Random) -> str:
    """A text with every eighth word another one."""
    return " ".join(
        draw.choice(words()) if draw.random() < 0.125 else word for word in text.split()
    )


def scores(answer: str, draw: random.Random) -> Iterator[Score]:
    """Two computed scores, two judged ones with their reasons; 5 % of these are invalid."""
    yield Score("TokenF1", "scored", round(draw.random(), 6))
    yield Score("KPrecision", "scored", round(draw.random() ** 0.3, 6))
    for name in MEASURES[2:]:
        if draw.random() < 0.05:
            yield Score(name, "judge_invalid", reason="no usable judgment in two replies")
            continue
        quoted = " ".join(answer.split()[: draw.randrange(8, 24)])
        reason = f"The answer says «{quoted}», which the context holds {draw.choice(words())}."
        yield Score(name, "scored", float(draw.choice((1, 2, 3, 3, 4, 4, 5))), detail=reason)


def write_study(folder: ProjectFolder, trials: int, rows: int) -> float:
    """Write a study through the run store; the seconds it took."""
    began = time.perf_counter()
    measures = parse_measures(", ".join(MEASURES))
    points = [dict(zip(AXES, point, strict=True)) for point in product(*AXES.values())]
    random.Random(0).shuffle(points)
    runs = Runs(folder.data / "ledger.sqlite")
    common = {"testset": "testsets/guide.jsonl", "measures": list(MEASURES)}
    axes = {key: list(values) for key, values in AXES.items()}
    study = {"name": "large", "axes": axes, "options": {"testset": common["testset"]}}
    sweep = runs.start(
        "sweep", {**common, "study": study, "objectives": ["TokenF1", "context_tokens"]}
    )
    for number, values in enumerate([{}, *points[: trials - 1]]):
        run = runs.start("trial", {**common, "values": values})
        kept = list(results(values, rows))
        for at, result in enumerate(kept):
            runs.append(run, RunRow(at, result.row_id, "done", result_body(result)))
        runs.finish(run, "complete")
        evaluation: Evaluation = evaluation_of(kept, measures)
        trial = trial_result(number, values, run, evaluation)
        runs.append(sweep, RunRow(number, trial.id, "done", trial_body(trial)))
    runs.finish(sweep, "complete")
    runs.close()
    return time.perf_counter() - began


def open_in_browser(path: Path, times: int = 5) -> Opening | str:
    """The middle of several openings, or why there is none."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return "no chromium on this machine"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "playwright is not installed (pip install playwright)"
    taken = []
    with sync_playwright() as play:
        for _ in range(times):
            chromium = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            page.add_init_script(_MARKS)
            page.goto(path.as_uri(), wait_until="load")
            while not page.evaluate("window.marks && marks.rows && marks.paint"):
                page.wait_for_timeout(20)
            marks = page.evaluate("marks")
            for name, (act, sign) in _ACTS.items():
                marks[name] = page.evaluate(_TIMED, [act, sign])
            taken.append(marks)
            chromium.close()
    middle = {name: statistics.median(sample[name] for sample in taken) for name in taken[0]}
    return Opening(
        middle["paint"],
        middle["ready"],
        middle["leaderboard"],
        middle["rows"],
        middle["row"],
        middle["chart"],
    )


_MARKS = """
window.marks = {};
new PerformanceObserver((list) => {
  for (const one of list.getEntries())
    if (one.name === 'first-contentful-paint') marks.paint = one.startTime;
}).observe({type: 'paint', buffered: true});
const look = () => {
  if (!marks.leaderboard && document.querySelector('.board tbody tr'))
    requestAnimationFrame(() => { marks.leaderboard ??= performance.now(); });
  if (!marks.rows && document.querySelector('#list[data-ready] .line'))
    marks.rows = performance.now();
  if (!marks.rows || !marks.leaderboard) setTimeout(look, 4);
};
look();
document.addEventListener('DOMContentLoaded', () => { marks.ready = performance.now(); });
"""


_TIMED = """
async ([chosen, sign]) => {
  const found = document.querySelector(chosen);
  const began = performance.now();
  if (found.click && chosen.startsWith('#list')) found.click();
  else found.scrollIntoView();
  while (!document.querySelector(sign)) await new Promise((go) => setTimeout(go, 2));
  return performance.now() - began;
}
"""

_ACTS = {
    "row": ("#list .line", ".opened .answer"),
    "chart": ("[data-chart]", "[data-drawn]"),
}
"""What a reader does -> the element he does it to, and what must then stand in the page."""


def measured(trials: int, rows: int, keep: Path | None) -> tuple[Table, dict[str, Any]]:
    """One study, from the store to the browser."""
    with tempfile.TemporaryDirectory() as name:
        folder = ProjectFolder(Path(name))
        folder.data.mkdir(parents=True)
        wrote = write_study(folder, trials, rows)
        store = sum(path.stat().st_size for path in folder.data.iterdir())
        runs = Runs(folder.data / "ledger.sqlite")
        began = time.perf_counter()
        report = Report(report_subject(folder, runs, ["latest"]))
        text = report.html()
        built = time.perf_counter() - began
        runs.close()
        path = keep or Path(name) / "report.html"
        path.write_text(text, "utf-8")
        opened = open_in_browser(path)
    left = sum(report.packed.left_out.values())
    whole = trials * rows - left
    table: dict[str, Cell] = {
        "trials x rows": f"{trials} x {rows}",
        "run store, MB": f"{store / 1e6:.0f}",
        "made in, s": f"{built:.1f}",
        "file, MB": f"{len(text.encode()) / 1e6:.2f}",
        "rows whole": f"{whole:,} of {trials * rows:,}",
    }
    if isinstance(opened, Opening):
        table |= {
            "first paint, ms": f"{opened.first_paint:.0f}",
            "leaderboard, ms": f"{opened.leaderboard:.0f}",
            "page ready, ms": f"{opened.ready:.0f}",
            "rows, ms": f"{opened.rows:.0f}",
            "open a row, ms": f"{opened.row:.0f}",
            "first chart, ms": f"{opened.chart:.0f}",
        }
    else:
        table["opening"] = f"not measured: {opened}"
    data = {"written_s": round(wrote, 1), "charts": len(report.charts)}
    return Table([table], "Made and opened"), data


def main() -> None:
    """Measure, print, and publish where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--publish", action="store_true")
    given = parser.parse_args()
    table, data = measured(given.trials, given.rows, given.keep)
    notes = (
        "Of all rows the scores are in the file; rows that are not whole lack answer, passages, "
        "prompt and judges' words, and the report says so and how to get them.",
        "Times are those of headless Chromium from disk with a new profile, the middle of five; "
        "a row and a chart count from the click, or from scrolling there.",
    )
    command = "python -m benchmarks.report --publish"
    section = Section("A report of a large study", [table], notes, command, "tuning", 40, data=data)
    print("\n".join(section_lines(section)))
    if given.publish:
        print(publish("report", section))


if __name__ == "__main__":
    main()
