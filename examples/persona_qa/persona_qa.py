"""Two teams, one document store: seven parameters, sixteen prompts; see README.md beside this."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragwright import Session, Workbench
from ragwright.experiment import (
    AblationOptions,
    ConfirmOptions,
    GridOptions,
    Study,
    read_study,
)
from ragwright.report import (
    ablation_table,
    generators_table,
    leaderboard_block,
    print_result,
    verdict_table,
)
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import Testset, import_testset, project_testset, write_rows

HERE = Path(__file__).parent
PERSONAS = ("engineer", "marketing")
QUESTION = "What happens when something blocks the valve?"
BANNER = (
    "*" * 79 + "\n"
    "SCRIPTED REPLIES: SCORES MEAN NOTHING. No model was named, so a server on this\n"
    "machine quotes sentences that share words with the question, makes vectors of words,\n"
    "and draws the judge's scores from a hash of what it is shown. Chunks, searches,\n"
    "prompts, statistics and the report are real.\n"
    "With real models: --model openai:gpt-4o-mini --judge openai:gpt-4o\n" + "*" * 79
)


@dataclass(frozen=True)
class Cast:
    """Who plays which part.

    Attributes:
        generators: Models that answer; several are swept.
        judges: Models that judge; several show how much the ranking hangs on the judge.
        embedders: Embedding models; several are swept, none means keyword search alone.
        settings: Overrides of the project file that these models need.
    """

    generators: tuple[str, ...]
    judges: tuple[str, ...]
    embedders: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def overrides(self) -> tuple[str, ...]:
        """The project as it stands: the first of each."""
        named = [f"answer.model={self.generators[0]}", f"judge.model={self.judges[0]}"]
        named += [f"embed.model={name}" for name in self.embedders[:1]]
        return (*self.settings, *named)

    def axes(self) -> str:
        """Lines of the study file for what several models are named of."""
        listed = {
            "answer": self.generators,
            "judge": self.judges,
            "embed": self.embedders,
        }
        return "".join(
            f"{section}: {{model: {json.dumps(names)}}}\n"
            for section, names in listed.items()
            if len(names) > 1
        )


def scripted(request: ServerRequest) -> str | Reply:
    """A reply in the right form: an answer quotes sentences, a score is a hash."""
    body = request.body
    if "input" in body:
        known = body["model"] == "words"  # whose vectors the server makes of whole words
        return Reply(vectors=None if known else [of_stems(text) for text in body["input"]])
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    if "judge" in body["model"]:
        number = zlib.crc32(f"{body['model']} {prompt}".encode())
        if number % 40 == 0:  # a judge that keeps to no form, as one in twenty real replies did
            return "It depends."
        return json.dumps({"reasoning": "A hash of the texts.", "score": 2 + number % 4})
    question = re.findall(r"^Question: (.*)$", prompt, re.MULTILINE)[-1]
    passages = prompt.replace(f"Question: {question}", "")  # a preset puts it before them
    short = "brief" in body["model"] or "marketing" in prompt.partition("Passages:")[0]
    quotes = quoted(passages, question, 1 if short else 2)
    return " ".join(quotes) or "The passages do not answer this question."


def quoted(prompt: str, question: str, many: int) -> list[str]:
    """The whole sentences of a prompt's passages that share most words with the question."""
    wanted = stems(question)
    _, *passages = re.split(r"^\[(\d+)\] .*\n", prompt, flags=re.MULTILINE)
    ranked: list[tuple[int, int, str]] = []
    for mark, text in zip(passages[::2], passages[1::2], strict=True):
        for sentence in re.split(r"(?<=[.!?;])\s+|\n\n", text):
            line = " ".join(sentence.split())
            shared = len(wanted & stems(line))
            if shared and re.match(r"[A-Z].*[.!?;]$", line):
                ranked.append((-shared, len(ranked), f"{line[:-1]} [{mark}]."))
    return [sentence for _, _, sentence in sorted(ranked)[:many]]


def of_stems(text: str) -> list[float]:
    """A unit vector that counts the stems of a text by their hash."""
    counts = [0.001] * 1024
    for stem in stems(text):
        counts[zlib.crc32(stem.encode()) % 1024] += 1
    length = sum(n * n for n in counts) ** 0.5
    return [n / length for n in counts]


def stems(text: str) -> set[str]:
    """The first five letters of the longer words."""
    return {word[:5].lower() for word in re.findall(r"\w{5,}", text)} - {"happe"}


@contextmanager
def casting(asked: argparse.Namespace) -> Iterator[Cast]:
    """The models of the command line, or scripted ones, said loudly."""
    if asked.model:
        judges = tuple(asked.judge or asked.model[:1])
        if set(judges) & set(asked.model):
            print("note: a model judges its own answers; name another one with --judge")
        yield Cast(tuple(asked.model), judges, tuple(asked.embed))
        return
    print(BANNER)
    with ScriptedServer(scripted, record=False) as server:
        names = ("scripted:careful", "scripted:brief")
        judges = ("scripted:judge", "scripted:second-judge")
        embedders = tuple(asked.embed) or ("scripted:stems", "scripted:words")
        base = (f"models.scripted.base={server.url}",)
        yield Cast(names, judges, embedders, base)


def project(folder: Path) -> Path:
    """The example's files in a folder of their own; what was measured there is kept."""
    skipped = shutil.ignore_patterns(".ragwright", "__pycache__", "*.py")
    shutil.copytree(HERE, folder, ignore=skipped, dirs_exist_ok=True)
    return folder


def located(bench: Workbench) -> Path:
    """The testset with its gold passages found in the documents."""
    path = bench.project.folder.testsets / "located.jsonl"
    imported = import_testset(bench.project, bench.project.folder.testsets / "gold.jsonl")
    write_rows(imported.rows, path)
    print(f"\n# Gold\n\n{len(imported.rows)} rows; " + "; ".join(imported.notes))
    return path


def side_by_side(bench: Workbench) -> None:
    """One question answered for every persona."""
    print(f"\n# {QUESTION}\n")
    for answer in bench.ask_all(QUESTION, PERSONAS):
        sources = ", ".join(sorted({Path(c.source).name for c in answer.citations}))
        print(f"[{answer.persona}] {answer.text}\n  sources: {sources or 'none cited'}\n")


def price(bench: Workbench, plan: Study) -> None:
    """What the study would call and cost, before any of it is paid for."""
    forecast = bench.forecast_sweep(plan).forecast
    asked = ", ".join(f"{model} {calls:,}" for model, calls in forecast.models.items())
    cost = "no price known" if forecast.cost is None else f"{forecast.cost.expected:.2f}"
    print(f"forecast: {forecast.calls.expected:,.0f} distinct calls ({asked}); cost: {cost}\n")


def study(bench: Workbench, cast: Cast, testset: Path) -> str:
    """Sweep, then confirm; the run of the sweep."""
    file = bench.project.folder.root / "study.yaml"
    text = (HERE / "study.yaml").read_text("utf-8") + cast.axes()
    if cast.embedders:
        text = text.replace("Pairwise\n", "Pairwise, ChunkScore\n")
    file.write_text(text.replace("testsets/located.jsonl", str(testset.resolve())), "utf-8")
    plan = read_study(bench.project, file)
    print(f"# Study: {' x '.join(axis.key for axis in plan.axes)}, {plan.size} trials\n")
    price(bench, plan)
    swept = bench.sweep(plan)
    if swept.stopped is not None:
        print(f"stopped: {swept.stopped}\n")
    print(print_result((), [leaderboard_block(swept.board[:5])], notes=swept.notes))
    print("\n# Verdict\n")
    held = bench.confirm(swept.run, ConfirmOptions())
    print(verdict_table(held.verdict, held.run))
    return swept.run


def ablation(bench: Workbench, testset: Path, limit: int) -> str:
    """The sixteen prompts of the presets, by persona, on a seeded subset; the run of it."""
    print("\n# What each preset changes\n")
    options = AblationOptions(presets=("a8",), limit=limit)
    result = bench.ablate(str(testset), "Comprehensive", options)
    print(ablation_table(result.ablation, run=result.run))
    return result.run


def readers(bench: Workbench, cast: Cast, rows: Testset) -> None:
    """Which persona is served best by which generator."""
    print("\n# Who is served best by whom\n")
    options = GridOptions(PERSONAS, cast.generators)
    comparison, run = bench.compare_generators(rows, "Comprehensive", options)
    print(generators_table(comparison, run=run.run))


def main() -> None:
    """From documents to a confirmed choice and a report, by one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", default=[], help="generator; repeat to sweep")
    parser.add_argument("--judge", action="append", default=[], help="judge; repeat for another")
    parser.add_argument("--embed", action="append", default=[], help="embedding model; repeat")
    parser.add_argument("--folder", type=Path, default=Path("persona-qa"), help="where to work")
    parser.add_argument(
        "--limit",
        type=int,
        default=3,
        help="questions of the ablation and of the comparison of generators",
    )
    parser.add_argument("--max-cost", type=float, help="stop before spending more than this")
    asked = parser.parse_args()
    folder = project(asked.folder)
    with casting(asked) as cast:
        session = Session(cast.overrides, max_cost=asked.max_cost)
        with Workbench.open(folder, session) as bench:
            bench.ingest()
            testset = located(bench)
            side_by_side(bench)
            run = study(bench, cast, testset)
            ablated = ablation(bench, testset, asked.limit)
            rows = project_testset(bench.project.folder, str(testset), "tune").subset(asked.limit)
            readers(bench, cast, rows)
            pages = {"report.html": run, "prompts.html": ablated}
            for name, reported in pages.items():
                (folder / name).write_text(bench.report(reported).html(), "utf-8")
    print(f"\n# Reports\n\nopen in a browser: {folder.resolve()}/report.html, prompts.html")
    if not asked.model:
        print("scripted replies: its scores mean nothing")


if __name__ == "__main__":
    main()
