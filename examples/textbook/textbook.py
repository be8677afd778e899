"""A textbook chapter's table, on any documents: see README.md beside this file."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragwright import Session, Workbench
from ragwright.experiment import Evaluation
from ragwright.project import init_project
from ragwright.report import text_table
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import SynthesisOptions, Testset, write_rows

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
MEASURES = ("MRR@5", "HitRate@5", "Rubric(AnswersQuestion)", "Groundedness")
HEAD = ("MRR", "hits (top 5)", "answer relevance", "groundedness")
BANNER = (
    "*" * 79 + "\n"
    "SCRIPTED JUDGE: THE LAST TWO COLUMNS MEAN NOTHING. No judge was named, so a server\n"
    "on this machine says yes or no by a hash of what it is shown. MRR and hits are real.\n"
    "With a real one: --judge openai:gpt-4o\n" + "*" * 79
)
THEIRS = {
    "base": (36.5, 42, 47, 48),
    "fine-tuned": (40.0, 46, 49, 49),
    "base + rerank (20 -> 2)": (37.5, 49, 43, 47),
    "fine-tuned + rerank (20 -> 2)": (40.7, 49, 47, 48),
}
"""What the chapter prints, of 50, for its own corpus, questions, models and judge."""

SKIPPED = "skipped: no --tuned MODEL given"


@dataclass(frozen=True)
class Asked:
    """The command line."""

    documents: Path
    questions: int
    embed: str
    rerank: str
    model: str
    judge: str
    tuned: str = ""

    def settings(self, reranked: bool, tuned: bool = False) -> tuple[str, ...]:
        """Overrides of a row of the table."""
        settings = [f"answer.model={self.model}"]
        if embed := self.tuned if tuned else self.embed:
            settings += [f"embed.model={embed}", "retrieve.search=dense"]
        if reranked:
            settings += [f"retrieve.rerank.model={self.rerank}", "retrieve.rerank.candidates=20"]
        return (*settings, f"retrieve.top_k={2 if reranked else 5}")


def scripted(request: ServerRequest) -> str:
    """Yes or no, drawn from a hash of the texts."""
    prompt = "\n".join(str(message["content"]) for message in request.body["messages"])
    yes = zlib.crc32(prompt.encode()) % 8 > 0
    return json.dumps({"reasoning": "A hash of the texts.", "score": int(yes)})


@contextmanager
def judging(name: str) -> Iterator[tuple[str, ...]]:
    """Settings of the judge of the command line, or of a scripted one, said loudly."""
    if name:
        yield (f"judge.model={name}",)
        return
    print(BANNER)
    with ScriptedServer(scripted, record=False) as server:
        yield (f"models.scripted.base={server.url}", "judge.model=scripted:judge")


def questions(folder: Path, asked: Asked) -> Testset:
    """Questions that the model writes; without one, headings and gaps."""
    offline = asked.model == "snippet"
    writer = "" if offline else asked.model
    with Workbench.open(folder, Session(asked.settings(reranked=False))) as bench:
        bench.ingest()
        options = SynthesisOptions(asked.questions, () if offline else ("model",), model=writer)
        synthesized, _ = bench.synth(options)
        path = bench.project.folder.testsets / "fifty.jsonl"
        write_rows(synthesized.rows, path)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(synthesized.made.items()))
    print(f"{len(synthesized.rows)} generated questions ({counts}) on {asked.documents}")
    return Testset(str(path), synthesized.rows)


def cell(evaluation: Evaluation, measure: str) -> str:
    """Sum over the rows that have a score, as the chapter counts, with the mean's interval."""
    summary = next(summary for summary in evaluation.summaries if summary.measure == measure)
    if summary.mean is None or summary.low is None or summary.high is None:
        return f"no score (n = {summary.n})"
    total = summary.mean * summary.n
    shown = f"{total:.1f}" if measure.startswith("MRR") else f"{total:.0f}"
    low, high = summary.low * summary.n, summary.high * summary.n
    return f"{shown} of {summary.n} ({low:.1f} .. {high:.1f})"


def counted(evaluation: Evaluation) -> str:
    """What MRR and hits counted: passages where the gold of a question is a place in a document."""
    kinds = {"spans": "gold passages", "documents": "gold documents"}
    rows = evaluation[MEASURES[0]].counted
    return " and ".join(f"{kinds[kind]} in {count} rows" for kind, count in rows.items())


def measured(folder: Path, asked: Asked, testset: Testset, judge: tuple[str, ...]) -> str:
    """The table and what it counts; without a fine-tuned model two rows are skipped."""
    lines = []
    kinds: dict[str, None] = {}
    for label in THEIRS:
        tuned = "fine-tuned" in label
        if tuned and not asked.tuned:
            lines.append([label, SKIPPED, "", "", ""])
            continue
        settings = (*asked.settings("rerank" in label, tuned), *judge)
        with Workbench.open(folder, Session(settings)) as bench:
            if tuned:
                bench.ingest()
            evaluation, _ = bench.evaluate(testset, ",".join(MEASURES))
        lines.append([label, *(cell(evaluation, measure) for measure in MEASURES)])
        kinds[counted(evaluation)] = None
    table = text_table([["", *HEAD], *lines], width=140)
    return f"{table}\nMRR and hits count {'; '.join(kinds)}"


def main() -> None:
    """Make the questions, measure what can be measured, print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "documents", type=Path, nargs="?", default=GUIDE, help="folder of documents"
    )
    parser.add_argument("--questions", type=int, default=50, help="how many are generated")
    parser.add_argument("--embed", default="", help="embedding model of base; else keyword search")
    parser.add_argument("--rerank", default="lexical", help="reranker; lexical needs no model")
    parser.add_argument("--model", default="snippet", help="chat model; snippet: none")
    parser.add_argument("--judge", default="", help="chat model that judges, openai:gpt-4o")
    parser.add_argument(
        "--tuned", default="", help="fine-tuned model, st:FOLDER as `ragwright tune embedder` wrote"
    )
    asked = Asked(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as passing, judging(asked.judge) as judge:
        folder = Path(passing)
        shutil.copytree(asked.documents, folder / "docs")
        init_project(folder, ("docs/",))
        testset = questions(folder, asked)
        base = f"dense search by {asked.embed}" if asked.embed else "keyword search (no --embed)"
        print(f"base: {base}; rerank: {asked.rerank}; answers: {asked.model}\n")
        print("OURS, sums over the questions (95 % interval); reranked rows keep 2 passages")
        print(measured(folder, asked, testset, judge))
    print("of N: rows that have a score; where the answer abstains there is nothing to judge")
    print("\nTHEIRS: the chapter's figures on its own data, models and judge; not comparable with")
    print("ours, and shown for their shape alone (of 50)")
    rows = [[label, *map(str, figures)] for label, figures in THEIRS.items()]
    print(text_table([["", *HEAD], *rows], right=range(1, 5)))


if __name__ == "__main__":
    main()
