"""Texts that people judged, as rows with a label each; read by path, copied nowhere.

The higher a label, the better people found the response. Rows of one cluster share an article, a
turn or a question, and are resampled together.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.data_sets import DATA
from ragwright.core import Row


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
        one, two = by_id[entry["instance_id"]]
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
            labels={aspect: (one[aspect] + two[aspect]) / 2 for aspect in ASPECTS},
            apart={aspect: (float(one[aspect]), float(two[aspect])) for aspect in ASPECTS},
            published={
                aspect: models[1]["ragchecker"][aspect] - models[0]["ragchecker"][aspect]
                for aspect in ASPECTS
            },
        )


def _grounded(name: str, question: str, response: str, knowledge: str) -> Row:
    """A response to be held against knowledge, which is the reference of text measures too."""
    return Row(name, question, response, knowledge, retrieved_contexts=(knowledge,))
