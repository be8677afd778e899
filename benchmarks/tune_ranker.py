r"""Ranker training on three collections: the change on held-out questions.

    python -m benchmarks.tune_ranker [claims codes french] [--search S] [--publish] [--folder F]

Each collection is a project whose testset names its splits; ``tune ranker`` is run as a user would,
once for keyword search and once for hybrid search, with the default settings. ``tune adapter`` is
run beside it on claims and French questions, for vector search and for hybrid search.

``claims``: SciFact, the 809 training claims -> the 300 claims that BEIR tests on, among all 5,183
abstracts. ``codes``: every page of Microsoft's C++ error reference, halves by the hash of the file
name; "I see error C2065, what should I do?" for up to 600 codes of each half that one page has in
its title. ``french``: PIAF, halves by the hash of the article; the first 800 questions of the file
are left out of the tested half, since they were used to choose the kind of ranker.

The choice between trees and a linear score also saw the training claims of SciFact, never the
tested ones. With ``--folder`` the projects and their vectors are kept for the next run.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.codes import msvc
from benchmarks.french import piaf
from benchmarks.publish import Cell, Section, Table, publish, versions
from benchmarks.tune_embedder import Case, build_project, cited_claims, half, row
from ragwright.core import text_hash
from ragwright.project import Project, Session, ingest_sources
from ragwright.training import (
    AdapterTuning,
    RankerTuning,
    TrainingOptions,
    Tuned,
    tune_adapter,
    tune_ranker,
)

CHOSEN = 800
"""Questions of PIAF, the first of the file, that the kind of ranker was chosen on."""
ASKED = 600
"""Codes asked about, of each half."""
SEARCHES = ("keyword", "hybrid", "dense")
MEASURES = ("nDCG@10", "MRR@10")
COLUMNS = (
    "search",
    "tuned",
    "training questions",
    "measure",
    "n",
    "before",
    "after",
    "difference",
    "95 % interval",
    "verdict",
)
UNTESTED = "not tested: no gain in cross-validation"


def claims() -> Case:
    """SciFact, all of it."""
    documents, questions = cited_claims()
    return Case("claims", documents, questions, "nDCG@10", TrainingOptions())


def codes() -> Case:
    """Microsoft's error reference, all of it."""
    task = msvc()[0]
    pages: dict[str, list[str]] = {}
    for document in task.documents:
        for code in set(re.findall(r"[A-Z]{1,6}\d{3,6}", document.title)):
            pages.setdefault(code, []).append(document.id)
    asked = [
        (f"I see error {code}, what should I do?", names, half(names[0]))
        for code, names in pages.items()
        if len(names) == 1
    ]
    asked.sort(key=lambda question: text_hash(question[0]))
    kept = [
        question
        for split in ("tune", "confirm")
        for question in [question for question in asked if question[2] == split][:ASKED]
    ]
    return Case("codes", task.documents, kept, "nDCG@10", TrainingOptions())


def french() -> Case:
    """PIAF without tested questions that anything of the ranker was chosen on."""
    task = piaf()
    questions = [
        (question, sorted(gold), half(min(gold).partition("-")[0]))
        for at, (question, gold) in enumerate(task.gold.items())
        if at >= CHOSEN or half(min(gold).partition("-")[0]) == "tune"
    ]
    return Case("french", task.documents, questions, "nDCG@10", TrainingOptions())


CASES: Mapping[str, Callable[[], Case]] = {"claims": claims, "codes": codes, "french": french}
ADAPTED = ("claims", "french")


def measured(
    case: Case, folder: Path, searches: Sequence[str] = SEARCHES
) -> tuple[list[Table], list[str]]:
    """Held-out figures of a case and the features of its rankers, and what to note."""
    root = folder / case.name
    if not root.exists():
        build_project(case, root)
    if not {"hybrid", "dense"} & set(searches):  # nothing is embedded then
        (root / "ragwright.yaml").write_text("sources: ['beir:corpus']\n")
    with Project.open(root) as project:
        ingest_sources(project)
    rows: list[dict[str, Cell]] = []
    features: list[Table] = []
    notes: list[str] = []
    for search in ("keyword", "hybrid"):
        if search not in searches:
            continue
        tuned = _measures(rows, search, _ranker, root)
        features += _features(search, tuned)
        notes += [f"Ranker, {search} search: {note}." for note in tuned.notes]
    for search in ("dense", "hybrid") if case.name in ADAPTED else ():
        if search not in searches:
            continue
        _measures(rows, search, _adapter, root)
    asked = sum(split == "confirm" for _, _, split in case.questions)
    held = f"{len(case.documents):,} documents, {len(case.questions) - asked:,} training questions"
    return [Table(rows, f"{held}, {asked:,} held-out questions"), *features], notes


def _measures(
    rows: list[dict[str, Cell]], search: str, tune: Callable[[Path, str, str], Tuned], root: Path
) -> Tuned:
    """A row for each measure; where training gains nothing, no measure opens what is held out."""
    tuned = tune(root, search, MEASURES[0])
    rows.append(_line(search, MEASURES[0], tuned))
    for measure in MEASURES[1:]:
        if tuned.comparison is not None:
            tuned = tune(root, search, measure)
        rows.append(_line(search, measure, tuned))
    return tuned


def _ranker(root: Path, search: str, measure: str) -> Tuned:
    started = time.process_time()
    with Project.open(root, Session((f"retrieve.search={search}",))) as project:
        tuning = RankerTuning(output=f"rankers/{search}-{measure}.json", measure=measure)
        tuned = tune_ranker(project, str(root / "main.jsonl"), tuning)
    print(f"  ranker {search} {measure}: {time.process_time() - started:.0f} s of CPU", flush=True)
    return tuned


def _adapter(root: Path, search: str, measure: str) -> Tuned:
    with Project.open(root, Session((f"retrieve.search={search}",))) as project:
        tuning = AdapterTuning(output=f"adapters/{search}-{measure}.npz", measure=measure)
        return tune_adapter(project, str(root / "main.jsonl"), tuning)


def _line(search: str, measure: str, tuned: Tuned) -> dict[str, Cell]:
    figures = tuned.training
    held = row("", {"dense": "vectors"}.get(search, search), tuned.part, tuned.comparison)
    if tuned.comparison is None:
        held |= {"measure": measure, "verdict": UNTESTED}
    held["training questions"] = f"{figures.measure}: {figures.before:.3f} -> {figures.after:.3f}"
    line = {column: held.get(column) for column in COLUMNS}
    print("  ", line, flush=True)
    return line


def _features(search: str, tuned: Tuned) -> list[Table]:
    caption = f"What the ranker of {search} search uses (MRR@10 of training questions, shuffled)"
    return [
        Table([dict(zip(table.columns, cells, strict=True)) for cells in table.rows], caption)
        for table in tuned.tables
        if table.name == "features"
    ]


def main() -> None:
    """The cases that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}; all when none is given")
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    parser.add_argument("--folder", type=Path, help="where projects are kept; else deleted")
    parser.add_argument("--search", action="append", choices=SEARCHES, help="one or more; else all")
    given = parser.parse_args()
    searches = given.search or SEARCHES
    more = "".join(f" --search {search}" for search in given.search or ())
    for name in given.names or CASES:
        case = CASES[name]()
        with tempfile.TemporaryDirectory() as folder:
            tables, notes = measured(case, given.folder or Path(folder), searches)
        if given.publish:
            section = Section(
                TITLES[name],
                tables,
                (*notes, NOTES[name]),
                f"python -m benchmarks.tune_ranker {name}{more} --publish",
                page="tuning-models",
                order=20,
                conditions=versions("lightgbm"),
            )
            print(publish(f"tune-ranker-{name}", section))


TITLES = {
    "claims": "A ranker and an adapter on scientific claims",
    "codes": "A ranker on error codes",
    "french": "A ranker and an adapter on French questions",
}
NOTES = {
    "claims": "The kind of ranker was chosen on development collections; the training claims were "
    "one of them, the held-out claims were not. Fusion was chosen on the training claims too.",
    "codes": "No setting of the ranker was chosen on these pages.",
    "french": f"The first {CHOSEN} questions of the file are not among the held-out ones: the kind "
    "of ranker was chosen on them. Title weight and fusion of the search were chosen on all of "
    "PIAF.",
}


if __name__ == "__main__":
    main()
