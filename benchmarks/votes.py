"""What can be learned from votes: simulated readers of real questions, passages and answers.

    python -m benchmarks.votes [--questions 1000] [--draws 100] [--publish]

A project over the 761 paragraphs of PIAF (French); every question is searched under four
configurations, and answered offline under the first. Simulated readers see the served answer and
its five first passages. They vote on the answer and name the passage that they take for the right
one. The questions, rankings and answers are real; the readers are not.

Every reader reads from the top. A *careful* reader reads all five passages, is wrong about the
answer in 5 % of cases, and names a wrong passage as often. A *20 % wrong* reader is wrong in 20 %
of cases. A *position-biased* reader is 20 % wrong too, and goes on to the next passage with
probability 0.6; a reader who has not seen the right passage accepts the answer. A *lazy* reader
accepts without reading and names the first passage in 30 % of cases, and is 20 % wrong otherwise.
*All three* is a lazy reader with position bias. No parameter was fitted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data_sets import DATA
from benchmarks.publish import Row, Section, Table, publish, section_lines
from ragwright import Workbench
from ragwright.core import Row as TestRow
from ragwright.drafting import Tally, proposed
from ragwright.measure import VoteModel
from ragwright.project import Session, init_project
from ragwright.testsets import gold_answer

SHOWN = 5
DEPTH = 20
VOTES = (1, 2, 3, 5, 9, 15, 25)

CONFIGURATIONS: Mapping[str, tuple[str, ...]] = {
    "keyword": (),
    "flat BM25": ("store.k1=0.3", "store.b=0.2"),
    "chunks of 80 tokens": ("chunk.size=80", "chunk.overlap=0"),
    "reranked": ("retrieve.rerank.model=extractive",),
}

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Reader:
    """A kind of simulated reader.

    Attributes:
        wrong: Share of wrong verdicts, and of wrongly named passages, of one who reads.
        lazy: Share of those who accept unread and name the first passage.
        onward: Probability of going on to the next passage.
    """

    wrong: float
    lazy: float = 0.0
    onward: float = 1.0


READERS = {
    "careful": Reader(0.05),
    "20 % wrong": Reader(0.2),
    "position-biased": Reader(0.2, onward=0.6),
    "lazy": Reader(0.2, lazy=0.3),
    "all three": Reader(0.2, lazy=0.3, onward=0.6),
}


@dataclass(frozen=True)
class Served:
    """Questions as they were served.

    Attributes:
        gold: Rank of the right paragraph among the shown ones, from 0; -1 if it is not shown.
        right: True if the served answer is right.
        shown: Number of passages shown.
        ranks: Configuration -> rank of every paragraph that it finds, by question; the columns are
            the shown paragraphs, then the right one. ``DEPTH`` if it is not found.
    """

    gold: Whole
    right: Flags
    shown: Whole
    ranks: Mapping[str, Whole]


@dataclass(frozen=True)
class Searched:
    """Every question's paragraphs under each configuration, best first.

    ``gold`` is the name of the right paragraph, ``right`` whether the offline answer is right.
    """

    gold: Sequence[str]
    right: Flags
    rankings: Mapping[str, Sequence[Sequence[str]]]

    def served_by(self, configuration: str) -> Served:
        """The questions as readers of this configuration see them."""
        shown = [names[:SHOWN] for names in self.rankings[configuration]]
        gold = [
            names.index(name) if name in names else -1
            for names, name in zip(shown, self.gold, strict=True)
        ]
        ranks = {}
        for other, lists in self.rankings.items():
            table = np.full((len(gold), SHOWN + 1), DEPTH, np.int64)
            for at, (names, name) in enumerate(zip(lists, self.gold, strict=True)):
                for column, document in [*enumerate(shown[at]), (SHOWN, name)]:
                    if document in names:
                        table[at, column] = names.index(document)
            ranks[other] = table
        lengths = np.asarray([len(names) for names in shown])
        return Served(np.asarray(gold), self.right, lengths, ranks)


def paragraphs() -> tuple[dict[str, str], list[tuple[TestRow, str]]]:
    """The paragraphs of PIAF by name, and each question with the name of its paragraph."""
    documents: dict[str, str] = {}
    questions = []
    text = (DATA / "piaf" / "piaf-v1.0.json").read_text("utf-8")
    for number, article in enumerate(json.loads(text)["data"]):
        for place, paragraph in enumerate(article["paragraphs"]):
            name = f"{number:03}-{place}.txt"
            documents[name] = paragraph["context"]
            questions += [
                (
                    TestRow(
                        question["id"],
                        question["question"],
                        reference=question["answers"][0]["text"],
                    ),
                    name,
                )
                for question in paragraph["qas"]
            ]
    return documents, questions


def search(count: int) -> Searched:
    """Search and answer the first questions of a shuffled order (seed 0)."""
    documents, questions = paragraphs()
    order = np.random.default_rng(0).permutation(len(questions))[:count]
    asked = [questions[place] for place in order]
    rankings: dict[str, list[list[str]]] = {}
    right: list[bool] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        init_project(folder)
        (folder / "docs").mkdir()
        for name, text in documents.items():
            (folder / "docs" / name).write_text(text, "utf-8")
        for configuration, settings in CONFIGURATIONS.items():
            with Workbench.open(folder, Session(settings)) as bench:
                bench.ingest()
                rankings[configuration] = [
                    list(
                        dict.fromkeys(
                            Path(hit.document_id).name
                            for hit in bench.retrieve(row.user_input, DEPTH).hits
                        )
                    )
                    for row, _ in asked
                ]
                if not settings:
                    right = [holds(row, bench.ask(row.user_input).text) for row, _ in asked]
    return Searched([name for _, name in asked], np.asarray(right), rankings)


def holds(row: TestRow, text: str) -> bool:
    """True if an answer holds every part of the gold answer in its words."""
    gold = gold_answer(row)
    return gold is not None and all(gold.held(text))


def votes(served: Served, reader: Reader, count: int, seed: int) -> tuple[Whole, Whole]:
    """Accepting votes by question, and how often each shown passage is named.

    A reader who is wrong about the passage names another one that they read, or none if they read
    only the right one; who sees no right passage names one of the others as often as they err.
    """
    random = np.random.default_rng(seed)
    size = len(served.gold), count
    lazy = random.random(size) < reader.lazy
    # passages read: one, and on with a chance each time
    going = np.ones(size, np.int64)
    on = np.ones(size, bool)
    for _ in range(SHOWN - 1):
        on &= random.random(size) < reader.onward
        going += on
    read = np.minimum(going, served.shown[:, None])
    seen = (served.gold[:, None] >= 0) & (served.gold[:, None] < read)
    errs = random.random(size) < reader.wrong
    trusting = (reader.onward < 1) & ~seen
    accepts = np.where(lazy | trusting, True, served.right[:, None] != errs)
    # another passage among those that were read
    others = read - seen
    draw = np.floor(random.random(size) * np.maximum(others, 1)).astype(np.int64)
    draw += seen & (draw >= served.gold[:, None])
    wrongly = np.where(others > 0, draw, -1)
    misnames = random.random(size) < reader.wrong
    named = np.where(misnames, wrongly, np.where(seen, served.gold[:, None], -1))
    named = np.where(lazy, 0, named)
    tallies = np.stack([(named == column).sum(1) for column in range(SHOWN)], 1)
    return accepts.sum(1), tallies


def chosen(named: Whole) -> list[tuple[int, ...]]:
    """The passages that the program would propose as gold, question by question."""
    return [proposed([Tally(named=int(count)) for count in row]) for row in named]


REVIEWED = 50
"""Answers whose votes people have reviewed, for the rule that is fitted to them."""


def verdict_figures(served: Served, draws: int) -> list[Row]:
    """How often n votes name the right verdict on the answer, by three rules."""
    rows: list[Row] = []
    for kind, reader in READERS.items():
        by_rule = {
            rule: dict[str, str | float]({"readers": kind, "rule": rule})
            for rule in ("majority", "assumed readers", f"{REVIEWED} answers reviewed")
        }
        for count in VOTES:
            shares: dict[str, list[float]] = {rule: [] for rule in by_rule}
            for draw in range(draws):
                accepted, _ = votes(served, reader, count, 1000 * count + draw)
                fitted = fitted_model(accepted[:REVIEWED], served.right[:REVIEWED], count)
                rules = (None, VoteModel.assumed(), fitted)
                for rule, model in zip(by_rule, rules, strict=True):
                    says = np.asarray([verdict(model, a, count) for a in range(count + 1)])
                    right = says[accepted[REVIEWED:]] == served.right[REVIEWED:]
                    shares[rule].append(float(np.mean(right)))
            for rule, cells in by_rule.items():
                cells[f"{count}"] = float(np.mean(shares[rule]))
        rows += by_rule.values()
    formula = {f"{n}": VoteModel.assumed().correct(n) for n in VOTES}
    return [*rows, {"readers": "formula of the program", "rule": "assumed readers", **formula}]


def fitted_model(accepted: Whole, right: Flags, count: int) -> VoteModel:
    """What the program assumes after people have reviewed these answers."""
    good, bad = accepted[right], accepted[~right]
    return VoteModel.of_reviews(
        (int(good.sum()), count * len(good)), (int(bad.sum()), count * len(bad))
    )


def verdict(model: VoteModel | None, accepted: int, count: int) -> bool:
    """True if the votes say that the answer is right; by their majority without a model."""
    if model is None:
        return 2 * accepted > count
    return model.probability(accepted, count - accepted) >= 0.5


def passage_figures(served: Served, draws: int) -> list[Row]:
    """How often the passage named most is the right one, and how often there is one."""
    rows: list[Row] = []
    known = served.gold >= 0
    for kind, reader in READERS.items():
        cells: dict[str, str | float] = {"readers": kind}
        for count in VOTES:
            shares = []
            for draw in range(draws):
                _, named = votes(served, reader, count, 1000 * count + draw)
                picks = chosen(named)
                hits = [pick == (gold,) for pick, gold in zip(picks, served.gold, strict=True)]
                shares.append(np.mean(np.asarray(hits)[known]))
            cells[f"{count}"] = float(np.mean(shares))
        rows.append(cells)
    return rows


def mean_scores(served: Served, columns: Sequence[int], questions: Whole) -> Numbers:
    """Mean reciprocal rank of the gold columns under every configuration."""
    picked = [table[questions, columns] for table in served.ranks.values()]
    return np.asarray([np.where(p < DEPTH, 1 / (p + 1), 0.0).mean() for p in picked])


def winner_figures(searched: Searched, draws: int) -> list[Row]:
    """How often gold from votes names the configuration that wins on the true gold."""
    size = len(searched.gold)
    every = np.arange(size)
    seen = {name: searched.served_by(name) for name in CONFIGURATIONS}
    served = seen["keyword"]
    truth = mean_scores(served, [SHOWN] * size, every)
    rows: list[Row] = [winner_row("", "true gold of all questions", truth, truth)]
    for name, served in seen.items():
        shown = every[served.gold >= 0]
        for count in (1, 25):
            means, same = [], []
            for draw in range(draws):
                _, named = votes(served, READERS["all three"], count, 1000 * count + draw)
                pairs = [(q, pick[0]) for q, pick in enumerate(chosen(named)) if len(pick) == 1]
                questions = np.asarray([q for q, _ in pairs])
                means.append(mean_scores(served, [column for _, column in pairs], questions))
                same.append(float(np.argmax(means[-1]) == np.argmax(truth)))
            row = winner_row(name, f"votes alone, {count}", np.mean(means, axis=0), truth)
            rows.append({**row, "names the true winner": float(np.mean(same))})
        reviewed = mean_scores(served, [SHOWN] * len(shown), shown)
        rows.append(winner_row(name, "a person, from what readers saw", reviewed, truth))
    pooled = every[np.any([served.gold >= 0 for served in seen.values()], axis=0)]
    scores = mean_scores(served, [SHOWN] * len(pooled), pooled)
    rows.append(winner_row("all four", "a person, from what any of them shows", scores, truth))
    return rows


def winner_row(served: str, gold: str, scores: Numbers, truth: Numbers) -> dict[str, str | float]:
    """A line: mean reciprocal rank by configuration, and whether the true winner wins."""
    cells: dict[str, str | float] = {"served by": served, "gold": gold}
    cells |= dict(zip(CONFIGURATIONS, map(float, scores), strict=True))
    return cells | {"names the true winner": float(np.argmax(scores) == np.argmax(truth))}


def main() -> None:
    """Print the tables; with ``--publish`` keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    begin = time.perf_counter()
    searched = search(options.questions)
    served = searched.served_by("keyword")
    print(
        f"{len(served.gold)} questions, right paragraph shown {np.mean(served.gold >= 0):.3f}, "
        f"answer right {np.mean(served.right):.3f}, {time.perf_counter() - begin:.0f} s",
        flush=True,
    )
    verdicts = verdict_figures(served, options.draws)
    passages = passage_figures(served, options.draws)
    winners = winner_figures(searched, options.draws)
    section = Section(
        title="What votes of readers are worth",
        tables=(
            Table(
                verdicts,
                f"Share of {len(served.gold) - REVIEWED:,} served answers on which n votes name "
                f"the right verdict, mean of {options.draws} draws. {np.mean(served.right):.1%} of "
                "the answers hold the gold answer. `assumed readers`: what the program says before "
                "any review (30 % accept unread, 20 % of the others are wrong); `reviewed`: after "
                f"people judged {REVIEWED} other answers. The last line is the program's formula, "
                "for answers half of which are right.",
            ),
            Table(
                passages,
                "Share of questions whose right paragraph is among the five shown "
                f"({np.mean(served.gold >= 0):.1%}) on which it is the one passage that n readers "
                "name most; ties count as failures.",
            ),
            Table(
                winners,
                "Which configuration wins (mean reciprocal rank of the gold paragraph among 20 "
                "chunks): on the true gold; on the passage that 1 or 25 readers with all three "
                "faults name most; on the gold of a person who takes the right passage if readers "
                "saw it and else rejects the question; and if that person sees the first five of "
                "all four configurations. `names the true winner`: share of draws.",
            ),
        ),
        notes=(
            "Readers are simulated: they vote independently of each other. Real readers share "
            "errors (a hard question misleads many), so real votes are worth less.",
            "Readers see only what the served configuration found, so gold from votes alone "
            "favours it, and more votes favour it more. A person's review takes most of that "
            "away. What is left comes from questions whose passage the served configuration did "
            "not show; it goes where the person also sees what the other configurations find "
            "(`ragwright review --feedback --pool 5 --set …`).",
            "Nothing was fitted; kinds and shares of readers were fixed before the first run.",
        ),
        command="python -m benchmarks.votes --publish",
        page="votes",
        data={"seconds": round(time.perf_counter() - begin)},
    )
    print("\n".join(section_lines(section)))
    if options.publish:
        print(publish("votes", section))


if __name__ == "__main__":
    main()
