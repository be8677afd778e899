"""Texts that people judged, as rows with a label each, read from the data sets in place.

The higher a label, the better people found the response. Rows of one cluster share an article, a
turn or a question, and are resampled together.

    python -m benchmarks.people --publish   # passports of every free measure on every set
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.data_sets import DATA
from benchmarks.publish import RESULTS, Section, Table, publish
from ragwright.core import Row, text_hash
from ragwright.experiment import (
    Passport,
    PeopleSet,
    Verdicts,
    free_verdicts,
    open_people,
    passport_from,
    read_recorded_verdicts,
    verdicts_in,
)
from ragwright.measure import Estimate


@dataclass(frozen=True)
class Judged:
    """A row, what people said of it, and what it shares with others."""

    row: Row
    label: float
    cluster: str


@dataclass(frozen=True)
class Pair:
    """Two responses to one question and people's preference: above 0 for the second.

    ``labels`` holds, by aspect, the mean of two annotators; ``apart`` each of them; ``published``
    the difference of the scores that RAGChecker gave.
    """

    first: Row
    second: Row
    labels: dict[str, float]
    apart: dict[str, tuple[float, float]]
    published: dict[str, float]


ASPECTS = ("correctness_label", "completeness_label", "overall_label")


def qags(name: str, data: Path = DATA) -> Iterator[Judged]:
    """QAGS (``cnndm`` or ``xsum``): sentences of summaries, supported by the article or not."""
    path = data / "qags" / f"mturk_{name}.jsonl"
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        entry = json.loads(line)
        for place, sentence in enumerate(entry["summary_sentences"]):
            votes = [vote["response"] == "yes" for vote in sentence["responses"]]
            row = _grounded(f"{number}-{place}", "", sentence["sentence"], entry["article"])
            yield Judged(row, float(sum(votes) * 2 > len(votes)), str(number))


def qags_annotator(name: str, data: Path = DATA) -> Iterator[tuple[float, float, str]]:
    """(one annotator, the other two where they agree, article): how far people follow people."""
    path = data / "qags" / f"mturk_{name}.jsonl"
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        for sentence in json.loads(line)["summary_sentences"]:
            votes = [float(vote["response"] == "yes") for vote in sentence["responses"]]
            for place, vote in enumerate(votes):
                others = {v for at, v in enumerate(votes) if at != place}
                if len(others) == 1:
                    yield vote, others.pop(), str(number)


def q2(data: Path = DATA) -> Iterator[Judged]:
    """Q2: replies in a dialogue, consistent with the knowledge given or not."""
    with (data / "q2" / "cross_annotation.csv").open(encoding="utf-8", newline="") as file:
        for number, entry in enumerate(csv.DictReader(file)):
            for system in ("dodeca", "memnet"):
                row = _grounded(
                    f"{number}-{system}",
                    entry["message"],
                    entry[f"{system}_response"],
                    entry["knowledge"],
                )
                yield Judged(row, 1.0 - float(entry[f"{system}_label"]), str(number))


def climate_fever(against: str, data: Path = DATA) -> Iterator[Judged]:
    """CLIMATE-FEVER: claims, supported by a sentence or not (``against``: ``all``, ``REFUTES``)."""
    archive = data / "climate_fever" / "fever_dataset.zip"
    with zipfile.ZipFile(archive) as opened, opened.open("climate-fever.jsonl") as raw:
        for line in io.TextIOWrapper(raw, "utf-8"):
            entry = json.loads(line)
            for place, evidence in enumerate(entry["evidences"]):
                label = evidence["evidence_label"]
                if against == "all" or label in {"SUPPORTS", against}:
                    name = f"{entry['claim_id']}-{place}"
                    row = _grounded(name, "", entry["claim"], evidence["evidence"])
                    yield Judged(row, float(label == "SUPPORTS"), entry["claim_id"])


def evouna(name: str, data: Path = DATA) -> Iterator[Judged]:
    """EVOUNA (``NQ`` or ``TQ``): answers of five systems, right or wrong."""
    entries = json.loads((data / "qa_eval_evouna" / f"{name}.json").read_text("utf-8"))
    for number, entry in enumerate(entries):
        if entry["improper"]:
            continue
        accepted = tuple(part for part in entry["golden_answer"].split("/") if part.strip())
        for system in ("fid", "gpt35", "chatgpt", "gpt4", "newbing"):
            verdict, answer = entry[f"judge_{system}"], entry[f"answer_{system}"]
            if not isinstance(verdict, bool) or not isinstance(answer, str) or not accepted:
                continue
            row = Row(
                f"{number}-{system}",
                entry["question"],
                response=answer,
                reference=accepted[0],
                metadata={"references": accepted[1:]},
            )
            yield Judged(row, float(verdict), str(number))


def ragchecker(data: Path = DATA) -> Iterator[Pair]:
    """RAGChecker's meta-evaluation: pairs of answers and which one people prefer."""
    folder = data / "ragchecker_meta"
    human = json.loads((folder / "human_labeled_data.json").read_text("utf-8"))
    scored = json.loads((folder / "baseline_ragchecker.json").read_text("utf-8"))
    by_id: dict[Any, list[Any]] = {}
    for entry in human:
        by_id.setdefault(entry["instance_id"], []).append(entry)
    for entry in scored:
        first, second = by_id[entry["instance_id"]]
        models = (entry["model1"], entry["model2"])
        rows = [
            Row(
                f"{entry['instance_id']}-{number}",
                entry["query"],
                response=model["response"],
                reference=entry["gt_answer"],
            )
            for number, model in enumerate(models)
        ]
        yield Pair(
            first=rows[0],
            second=rows[1],
            labels={aspect: (first[aspect] + second[aspect]) / 2 for aspect in ASPECTS},
            apart={aspect: (float(first[aspect]), float(second[aspect])) for aspect in ASPECTS},
            published={
                aspect: models[1]["ragchecker"][aspect] - models[0]["ragchecker"][aspect]
                for aspect in ASPECTS
            },
        )


def _grounded(name: str, question: str, response: str, knowledge: str) -> Row:
    """A response to be held against knowledge, which is the reference of text measures too."""
    return Row(name, question, response, knowledge, retrieved_contexts=(knowledge,))


SETS = {
    "mtrag": "mtrag",
    "qags": "qags",
    "q2": "q2",
    "climate_fever": "climate_fever",
    "evouna": "qa_eval_evouna",
    "ragchecker": "ragchecker_meta",
    "trulens": "trulens_context_relevance",
    "qrels": "rag25/qrels.rag25.test.txt",
}
"""Set -> its place in the folder of data sets."""

UMBRELA = "rag25/qrels.rag25.test-umbrela2.txt"
MOST_TASKS, SEED = 250, 0
CHOSEN_FOR = {
    "faithfulness": ("mtrag", "qags", "q2", "climate_fever"),
    "correctness": ("evouna", "ragchecker"),
}
"""What a default is chosen for -> the sets whose development halves choose it."""
DIMENSIONS = {"climate_fever": "support"}
DEFAULTS = {
    "faithfulness": ("KPrecision(content+bigrams)", "KPrecision(content)", "KPrecision"),
    "correctness": ("TokenF1", "Contains", "ROUGE(L)", "ROUGE(L,recall)", "KF1(content)"),
}
"""Candidates for the default of `score` without a chat model."""


def sampled(people: PeopleSet) -> PeopleSet:
    """At most 250 tasks of a set, drawn by the seed; TREC's topics are all kept."""
    tasks = sorted({item.task for item in people.rated})
    if len(tasks) <= MOST_TASKS:
        return people
    kept = set(random.Random(SEED).sample(tasks, MOST_TASKS))
    rated = tuple(item for item in people.rated if item.task in kept)
    note = f"{MOST_TASKS} of {len(tasks)} tasks, drawn by the seed {SEED}"
    return replace(people, rated=rated, notes=(*people.notes, note))


def half(people: PeopleSet, *, test: bool) -> PeopleSet:
    """The development or the test half of a set, by a hash of the task."""
    rated = tuple(
        item for item in people.rated if (int(text_hash(item.task)[:8], 16) % 2 == 1) == test
    )
    return replace(people, rated=rated)


def verdicts_on(people: PeopleSet, data: Path = DATA) -> list[Verdicts]:
    """Recorded verdicts and free measures of a set."""
    if people.name == "qrels":
        return verdicts_in(str(data / UMBRELA), people)[0]
    return [*read_recorded_verdicts(people), *free_verdicts(people)]


def figure(estimate: Estimate) -> str:
    """A value with its interval; empty if undefined."""
    if estimate.value is None:
        return ""
    ends = "" if estimate.low is None else f" ({estimate.low:.3f} to {estimate.high:.3f})"
    return f"{estimate.value:.3f}{ends}"


def passport_rows(passport: Passport) -> list[dict[str, Any]]:
    """A line for people and one for each judge of every dimension."""
    rows: list[dict[str, Any]] = []
    for people in passport.people:
        place = {"set": passport.set, "dimension": people.name}
        if people.twice:
            rows.append(
                {
                    **place,
                    "judge": "*people, one against the others*",
                    "rows": people.twice,
                    "Spearman": figure(people.spearman),
                    "with one person": figure(people.spearman),
                    "kappa": figure(people.kappa),
                    "AUC": figure(people.auc),
                    "bias": "",
                }
            )
        rows += [
            {
                **place,
                "judge": f"`{judge.name}`",
                "rows": figures.rows,
                "Spearman": figure(figures.spearman),
                "with one person": figure(figures.one_person),
                "kappa": figure(figures.kappa),
                "AUC": figure(figures.auc),
                "bias": figure(figures.bias),
            }
            for judge in passport.judges
            if (figures := judge.dimensions.get(people.name)) is not None
        ]
    return rows


def difference_rows(passports: Mapping[str, Passport]) -> list[dict[str, Any]]:
    """Recorded judges minus the best free measure, in the dimension that each is about."""
    return [
        {
            "set": passport.set,
            "dimension": judge.dimension,
            "judge": f"`{judge.name}`",
            "advice": figures.advice,
        }
        for passport in passports.values()
        for judge in passport.judges
        if judge.kind == "recorded"
        and (figures := judge.dimensions.get(judge.dimension)) is not None
    ]


def default_rows(sets: Mapping[str, PeopleSet]) -> list[dict[str, Any]]:
    """Rank correlation of the candidates on development halves, and on the test halves."""
    rows: list[dict[str, Any]] = []
    for purpose, names in CHOSEN_FOR.items():
        means: dict[str, dict[str, list[float]]] = {}
        for name in names:
            dimension = DIMENSIONS.get(name, purpose)
            for side in ("development", "test"):
                people = half(sets[name], test=side == "test")
                wanted = tuple(d for d in people.dimensions if d.name == dimension)
                people = replace(people, dimensions=wanted)
                rated = tuple(
                    replace(item, labels={dimension: item.labels[dimension]})
                    for item in people.rated
                    if dimension in item.labels
                )
                passport = passport_from(replace(people, rated=rated), free_verdicts(people))
                for measure in DEFAULTS[purpose]:
                    judge = passport.judge(measure)
                    value = None if judge is None else judge.dimensions[dimension].spearman.value
                    if value is not None:
                        means.setdefault(measure, {}).setdefault(side, []).append(value)
        for measure, by_side in means.items():
            values = {side: sum(v) / len(names) for side, v in by_side.items()}
            rows.append(
                {
                    "for": purpose,
                    "measure": f"`{measure}`",
                    "sets": ", ".join(names),
                    "development half": round(values["development"], 3),
                    "test half": round(values["test"], 3),
                }
            )
    return rows


def main() -> None:
    """Compute the passports, print them, and publish them where asked."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--publish", action="store_true", help="write docs/results")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    words = parser.parse_args()
    sets = {name: sampled(open_people(f"{name}:{DATA / place}")) for name, place in SETS.items()}
    passports = {name: passport_from(people, verdicts_on(people)) for name, people in sets.items()}
    tables = [
        Table(
            passport_rows(passport),
            f"{name}: {passport.rows:,} rows, {passport.tasks:,} tasks. "
            + "; ".join(
                (*(f"{p.name}: {p.mapping}" for p in passport.people if p.mapping), *passport.notes)
            ),
        )
        for name, passport in passports.items()
    ]
    tables.append(Table(difference_rows(passports), "Does a free measure do as well?"))
    tables.append(
        Table(
            default_rows(sets),
            "Mean rank correlation with people over the sets; a set on which a measure gives every "
            "answer the same value counts 0. Halves are by a hash of the task, and the test halves "
            "decided nothing.",
        )
    )
    for table in tables:
        print(f"\n{table.caption}")
        for row in table.rows:
            print("  ".join(str(cell) for cell in row.values()))
    if words.publish:
        section = Section(
            title="Passports",
            page="people",
            command="python -m benchmarks.people --publish",
            tables=tables,
            notes=(
                "Correlations are with the mean of people's labels of a row; `with one person` "
                "is the correlation with single labels, to be read beside the line of people. The "
                "judge behind RAGAS's values (`rl_f`) is not stated by MTRAG. "
                "For faithfulness `KPrecision(content+bigrams)` leads on the development halves "
                "and stays the default of `score`. For correctness `ROUGE(L,recall)` leads there "
                "by a little and not on the test halves; `TokenF1` stays the default, with "
                "`Contains` for short references.",
            ),
        )
        print(publish("people", section, words.out))


if __name__ == "__main__":
    main()
