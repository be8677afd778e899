"""Sets of people's verdicts: the answers, who judged them, on what scale; and published sets.

Each reader reads one set from its own files: QAGS (Wang et al. 2020), Q2 (Honovich et al. 2021),
CLIMATE-FEVER (Diggelmann et al. 2020), EVOUNA (Wang et al. 2023), MTRAG (Katsis et al. 2025), and
the context relevance set of TruLens.
"""

from __future__ import annotations

import json
import re
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

from ..core import Row, TestsetError, count_noun, list_names
from ..testsets import objects_of, read_qrels, records_of


@dataclass(frozen=True, slots=True)
class Dimension:
    """A quality that people judged, such as ``faithfulness``; higher labels are better.

    Attributes:
        name: As the set names it.
        low: Worst label.
        high: Best label.
        mapping: How labels of the set became numbers, for the reader; empty if they are unchanged.
        of: Dimension whose labels this one divides in two; empty for a dimension of its own.
        threshold: Smallest label of ``of`` that counts as 1.
    """

    name: str
    low: float
    high: float
    mapping: str = ""
    of: str = ""
    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class RatedAnswer:
    """One answer with the labels of people; or a pair of answers with their preference.

    Attributes:
        row: The answer, with question, passages and reference as far as the set has them.
        labels: Dimension -> person -> label. Of a pair, above 0 means that ``second`` is better.
        task: Answers of one task (a question, an article, a topic) are resampled together.
        system: What gave the answer; empty if unknown.
        verdicts: Recorded verdicts of other judges that the set holds: name -> value.
        second: The other answer of a pair; None for a single answer.
        topic: Subject that several tasks share; empty if it is the task.
    """

    row: Row
    labels: Mapping[str, Mapping[str, float]]
    task: str
    system: str = ""
    verdicts: Mapping[str, float] = field(default_factory=dict)
    second: Row | None = None
    topic: str = ""


@dataclass(frozen=True, slots=True)
class PeopleSet:
    """A set of people's verdicts.

    Attributes:
        name: Short name, ``mtrag``.
        rated: Answers or pairs, each id once.
        dimensions: What people judged, in the order of the set.
        notes: What was left out and how labels were read, for the reader.
        scales: Name of recorded verdicts -> worst and best value; those without one have only
            statistics of ranks.
        source: The set as it was named, with its path.
        runs: Runs of the project whose scores are recorded verdicts on the rows.
    """

    name: str
    rated: tuple[RatedAnswer, ...]
    dimensions: tuple[Dimension, ...]
    notes: tuple[str, ...] = ()
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    source: str = ""
    runs: tuple[str, ...] = ()

    @property
    def pairs(self) -> bool:
        """True if people compared two answers instead of judging one."""
        return any(item.second is not None for item in self.rated)

    @property
    def tasks(self) -> int:
        """Number of different tasks."""
        return len({item.task for item in self.rated})


class SetFiles:
    """The files of a set; those of a zip archive are unpacked into a temporary folder.

    Args:
        path: A folder, a file, a zip archive, or a folder with one zip archive.

    Attributes:
        path: The folder, or the file.
        paths: All files, sorted, without hidden ones.

    Raises:
        TestsetError: There is nothing at the path, or it is an address.
    """

    def __init__(self, path: str) -> None:
        if "://" in path:
            raise TestsetError(
                "an address cannot be read directly",
                where=path,
                hint=f"clone or download it first: git clone --depth 1 {path} FOLDER, then give "
                "the folder",
            )
        self.path = Path(path)
        if not self.path.exists():
            raise TestsetError("no such file or folder", where=path, hint="check the path")
        archives = [*self.path.glob("*.zip")] or [self.path]
        if len(archives) == 1 and archives[0].suffix.lower() == ".zip":
            self.path = Path(mkdtemp(prefix="ragwright-"))
            weakref.finalize(self, rmtree, self.path)
            try:
                zipfile.ZipFile(archives[0]).extractall(self.path)
            except (OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
                raise TestsetError(
                    f"the archive cannot be read: {error}",
                    where=str(archives[0]),
                    hint="download it again, or unpack it yourself and give the folder",
                ) from error
        hidden = re.compile(r"/\.|/__MACOSX/")
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        self.paths = sorted(
            file
            for file in files
            if file.is_file()
            and not hidden.search(f"/{file.relative_to(self.path).as_posix()}"[: -len(file.name)])
        )

    def named(self, *patterns: str) -> tuple[Path, ...]:
        """The files whose name matches a pattern, ``mturk_*.jsonl``; a single file always does.

        Raises:
            TestsetError: None does; with the files that there are.
        """
        matching = tuple(
            file
            for file in self.paths
            if file == self.path or any(fnmatch(file.name, pattern) for pattern in patterns)
        )
        if not matching:
            held = list_names([file.name for file in self.paths], 8)
            raise TestsetError(
                f"no such file: {' or '.join(patterns)}",
                where=str(self.path),
                hint=f"it holds: {held or 'no files'}",
            )
        return matching

    def entries(self, *patterns: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
        """(Name of the file without suffix, number from 0, object) of every entry of the files.

        Entries are the lines of JSONL and CSV (without empty cells), and the objects of an array.
        """
        for path in self.named(*patterns):
            read = objects_of if path.suffix == ".jsonl" else records_of
            for number, (_, entry) in enumerate(read(path)):
                yield path.stem, number, entry


def _ground_response(name: str, question: str, response: str, knowledge: str) -> Row:
    """A response to be held against knowledge, which is the reference of text measures too."""
    return Row(name, question, response, knowledge, retrieved_contexts=(knowledge,))


def qags(files: SetFiles) -> PeopleSet:
    """QAGS: sentences of summaries, each supported by its article or not; three people each."""
    rated = tuple(
        RatedAnswer(
            _ground_response(
                f"{stem.removeprefix('mturk_')}-{number}-{place}",
                "What does the article say?",
                sentence["sentence"],
                entry["article"],
            ),
            {
                "faithfulness": {
                    str(vote["worker_id"]): float(vote["response"] == "yes")
                    for vote in sentence["responses"]
                }
            },
            f"{stem.removeprefix('mturk_')}-{number}",
            stem.removeprefix("mturk_"),
        )
        for stem, number, entry in files.entries("mturk_*.jsonl")
        for place, sentence in enumerate(entry["summary_sentences"])
    )
    scale = Dimension("faithfulness", 0, 1, "1 supported by the article (yes), 0 not (no)")
    return PeopleSet("qags", rated, (scale,), ("each row is one sentence of a summary",))


def q2(files: SetFiles) -> PeopleSet:
    """Q2: replies of two systems in dialogues, consistent with the given knowledge or not."""
    rated = tuple(
        RatedAnswer(
            _ground_response(
                f"{number}-{system}",
                entry.get("message", ""),
                entry.get(f"{system}_response", ""),
                entry["knowledge"],
            ),
            {"faithfulness": {"people": 1.0 - float(entry[f"{system}_label"])}},
            entry["episode_idx"],
            system,
            topic=entry.get("topic", ""),
        )
        for _, number, entry in files.entries("cross_annotation.csv")
        for system in ("dodeca", "memnet")
    )
    mapping = "turned: 1 consistent with the knowledge (0 in the file), 0 inconsistent (1)"
    scale = Dimension("faithfulness", 0, 1, mapping)
    return PeopleSet("q2", rated, (scale,), ("a task is one dialogue",))


def climate_fever(files: SetFiles) -> PeopleSet:
    """CLIMATE-FEVER: claims and sentences of evidence, two to five votes on each pair."""
    rated = tuple(
        RatedAnswer(
            _ground_response(
                f"{entry['claim_id']}-{place}",
                "Is the claim true?",
                entry["claim"],
                evidence["evidence"],
            ),
            {
                "support": {
                    f"vote {number}": float(vote == "SUPPORTS")
                    for number, vote in enumerate(evidence["votes"], 1)
                    if vote is not None
                }
            },
            str(entry["claim_id"]),
        )
        for _, _, entry in files.entries("climate-fever.jsonl")
        for place, evidence in enumerate(entry["evidences"])
    )
    scale = Dimension("support", 0, 1, "1 SUPPORTS, 0 REFUTES or NOT_ENOUGH_INFO")
    return PeopleSet("climate_fever", rated, (scale,))


def trulens(files: SetFiles) -> PeopleSet:
    """TruLens: questions of MS MARCO with a relevant passage or a hard negative."""
    rated = tuple(
        RatedAnswer(
            _ground_response(
                str(number), entry["query"], entry["query"], entry["expected_response"]
            ),
            {"relevance": {"people": float(entry["expected_score"])}},
            entry["query"],
        )
        for _, number, entry in files.entries("*hard_neg*.csv")
    )
    note = (
        "the question stands in for the response, so that KPrecision is the share of its words in "
        "the passage"
    )
    return PeopleSet("trulens", rated, (Dimension("relevance", 0, 1),), (note,))


def evouna(files: SetFiles) -> PeopleSet:
    """EVOUNA: answers of five systems to open questions, right or wrong."""
    entries = list(files.entries("NQ.json", "TQ.json"))
    systems = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")
    proper = [
        (f"{stem}-{number}", entry, tuple(text.strip() for text in gold.split("/") if text.strip()))
        for stem, number, entry in entries
        for gold in (str(entry["golden_answer"] or ""),)
        if not entry["improper"]
    ]
    rated = tuple(
        RatedAnswer(
            Row(
                f"{task}-{system}",
                entry["question"],
                entry[f"answer_{system}"],
                accepted[0],
                metadata={"references": accepted},
            ),
            {"correctness": {"people": float(entry[f"judge_{system}"])}},
            task,
            system,
        )
        for task, entry, accepted in proper
        for system in systems
        if accepted
        and isinstance(entry.get(f"judge_{system}"), bool)
        and isinstance(entry.get(f"answer_{system}"), str)
    )
    missing = len(proper) * len(systems) - len(rated)
    notes = (
        *_note_left_out(len(entries) - len(proper), "question", " marked improper"),
        *_note_left_out(missing, "answer", " without a text, a verdict or an accepted answer"),
    )
    scale = Dimension("correctness", 0, 1, "1 right (true), 0 wrong (false)")
    return PeopleSet("evouna", rated, (scale,), notes)


_MTRAG = (
    *(
        Dimension(name, 1, 4)
        for name in ("faithfulness", "completeness", "appropriateness", "naturalness")
    ),
    Dimension("win-rate", 0, 100),
)


def mtrag(files: SetFiles) -> PeopleSet:
    """MTRAG: answers of two models within conversations, judged by two or three people.

    The reference answers and answers without passages are left out. The stored values of RAGAS
    (``rl_f``), of a RADBench judge (``rb_llm``) and of other measures are recorded verdicts.
    """
    body = json.loads(files.named("*human_evaluations.json")[0].read_text("utf-8"))
    texts = {entry["document_id"]: entry["text"] for entry in body["documents"]}
    tasks = {task["task_id"]: task for task in body["tasks"]}
    scales = {
        metric["name"]: (float(metric["range"][0]), float(metric["range"][1]))
        for metric in body["metrics"]
        if metric.get("author") == "algorithm" and metric.get("range")
    }
    answers = [
        (e, tasks[e["task_id"]]) for e in body["evaluations"] if e["model_id"] != "reference"
    ]
    rated = tuple(
        RatedAnswer(
            Row(
                f"{task['task_id']}-{entry['model_id']}",
                task["input"][-1]["text"],
                entry["model_response"],
                task["targets"][0]["text"] if task["targets"] else "",
                retrieved_contexts=tuple(
                    texts[context["document_id"]] for context in task["contexts"]
                ),
            ),
            {
                dimension.name: {
                    person: float(mark["value"])
                    for person, mark in entry["annotations"][dimension.name].items()
                }
                for dimension in _MTRAG
                if dimension.name in entry["annotations"]
            },
            task["task_id"],
            entry["model_id"],
            {
                name: float(stored["value"])
                for name in scales
                for stored in entry["annotations"].get(name, {}).values()
                if isinstance(stored.get("value"), int | float)
            },
            topic=str(task.get("Collection", "")),
        )
        for entry, task in answers
        if task["contexts"]
    )
    notes = (
        *_note_left_out(len(body["evaluations"]) - len(answers), "reference answer"),
        *_note_left_out(len(answers) - len(rated), "answer", " without passages"),
    )
    return PeopleSet("mtrag", rated, _MTRAG, notes, scales)


def ragchecker(files: SetFiles) -> PeopleSet:
    """RAGChecker: pairs of answers and preferences from -2 to 2; two people judged each pair.

    The differences of RAGChecker's own scores are recorded verdicts, if its file is there.
    """
    aspects, sides = ("correctness", "completeness", "overall"), ("model1", "model2")
    judged: dict[str, list[dict[str, Any]]] = {}
    published: dict[str, dict[str, float]] = {}
    for _, _, entry in files.entries("human_labeled_data.json", "baseline_ragchecker.json"):
        pair = str(entry["instance_id"])
        first, second = (entry.get(side, {}).get("ragchecker") for side in sides)
        if first and second:
            published[pair] = {
                f"ragchecker {aspect}": second[f"{aspect}_label"] - first[f"{aspect}_label"]
                for aspect in aspects
            }
        else:
            judged.setdefault(pair, []).append(entry)
    if not judged:
        raise TestsetError(
            "there are no judgments of people",
            where=str(files.path),
            hint="human_labeled_data.json holds them; the other file holds RAGChecker's scores",
        )
    rated = []
    for pair, entries in judged.items():
        entry = entries[0]
        one, other = (
            Row(name, entry["query"], entry[side]["response"], entry["gt_answer"])
            for name, side in zip((pair, f"{pair}-second"), sides, strict=True)
        )
        labels = {
            aspect: {
                f"annotator {number}": float(by_person[f"{aspect}_label"])
                for number, by_person in enumerate(entries, 1)
            }
            for aspect in aspects
        }
        topic = str(entry.get("dataset", ""))
        task = f"{topic} {entry.get('query_id', pair)}"
        models = " vs ".join(str(entry[side].get("model_name", side)) for side in sides)
        verdicts = published.get(pair, {})
        rated.append(RatedAnswer(one, labels, task, models, verdicts, other, topic))
    mapping = "-2 the first answer is much better, 2 the second"
    dimensions = tuple(Dimension(aspect, -2, 2, mapping) for aspect in aspects)
    note = "each row is a pair; a judge's verdict is its score of the second answer minus the first"
    return PeopleSet("ragchecker", tuple(rated), dimensions, (note,))


_RELEVANT = 2
"""Grade from which a document counts as relevant on scales of more than two grades (TREC RAG)."""


def qrels(files: SetFiles) -> PeopleSet:
    """TREC qrels: passages by topic with their grades; texts are not part of the format."""
    if not files.path.is_file():
        raise TestsetError(
            "give the file with the judgments of people, not a folder",
            where=str(files.path),
            hint=f"qrels:{files.path}/FILE, and a judge's file with --verdicts",
        )
    graded = read_graded_rows(files.path.as_posix())
    rated = tuple(
        RatedAnswer(Row(row_id, topic), {"relevance": {"assessor": float(grade)}}, topic)
        for row_id, (topic, grade) in graded.items()
    )
    grades = [float(grade) for _, grade in graded.values()]
    dimensions = [Dimension("relevance", min(0.0, *grades), max(1.0, *grades))]
    if dimensions[0].high > 1:
        name = f"relevance>={_RELEVANT}"
        mapping = f"1 for grades from {_RELEVANT} on, else 0"
        dimensions.append(Dimension(name, 0, 1, mapping, "relevance", _RELEVANT))
    note = "the texts of topics and passages are not in the file: only recorded verdicts apply"
    return PeopleSet("qrels", rated, tuple(dimensions), (note,))


def read_graded_rows(path: str) -> Mapping[str, tuple[str, int]]:
    """Id of a row -> (topic, grade) of every judgment in a file of qrels."""
    return {
        f"{topic} {document}": (topic, grade)
        for topic, grades in read_qrels(path).items()
        for document, grade in grades.items()
    }


def _note_left_out(count: int, what: str, why: str = "") -> tuple[str, ...]:
    """A note on rows that are not used; none if there are none."""
    return (f"left out: {count_noun(count, what)}{why}",) if count else ()
