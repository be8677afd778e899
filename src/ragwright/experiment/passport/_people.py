"""Sets of people's verdicts: the answers, who judged them, on what scale; and published sets.

Each reader reads one set from its own files: QAGS (Wang et al. 2020), Q2 (Honovich et al. 2021),
CLIMATE-FEVER (Diggelmann et al. 2020), EVOUNA (Wang et al. 2023), MTRAG (Katsis et al. 2025), and
the context relevance set of TruLens.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from ...core import Row, TestsetError, count_noun, list_names
from ...testsets import read_qrels


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


_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|git@|[\w.-]+@[\w.-]+:)", re.IGNORECASE)
_HIDDEN = re.compile(r"(?:^|/)(?:\.|__MACOSX(?:/|$))")
_MOST_OF_A_CELL = 1 << 26


class SetEntry(dict[str, Any]):
    """An object in a file of a set; a key that it lacks is an error that names the place."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.where = where

    def __missing__(self, name: str) -> Any:
        raise TestsetError(
            f"there is no {name!r}",
            where=self.where,
            hint=f"is this the right set? Columns: {list_names(list(self), 12) or 'none'}",
        )

    def number(self, name: str) -> float:
        """Return a value as a number; raises TestsetError for other text."""
        try:
            return float(self[name])
        except ValueError as error:
            raise TestsetError(
                f"{name} is {self[name][:40]!r}, not a number", where=self.where
            ) from error


class SetFiles:
    """The files of a set, wherever they are.

    Args:
        path: A folder, a file, a zip archive, or a folder with one zip archive.

    Attributes:
        names: Paths of all files within the set, sorted; of a single file its name.

    Raises:
        TestsetError: There is nothing at the path, it is an address, or not a zip archive.
    """

    def __init__(self, path: str) -> None:
        if _ADDRESS.match(path):
            raise TestsetError(
                "an address cannot be read directly",
                where=path,
                hint=f"clone or download it first: git clone --depth 1 {path} FOLDER, then give "
                "the folder",
            )
        self.path = Path(path)
        if not self.path.exists():
            raise TestsetError("no such file or folder", where=path, hint="check the path")
        if self.path.is_dir() and len(archives := [*self.path.glob("*.zip")]) == 1:
            self.path = archives[0]
        names = [self.path.name]
        self._archive: zipfile.ZipFile | None = None
        if self.path.is_dir():
            files = (file for file in self.path.rglob("*") if file.is_file())
            names = [file.relative_to(self.path).as_posix() for file in files]
        elif zipfile.is_zipfile(self.path):
            self._archive = zipfile.ZipFile(self.path)
            names = [info.filename for info in self._archive.infolist() if not info.is_dir()]
        elif self.path.suffix.lower() == ".zip":
            raise TestsetError(
                "not a zip archive that can be read", where=path, hint="download it again"
            )
        self.names = tuple(sorted(name for name in names if not _HIDDEN.search(name)))

    def named(self, *patterns: str) -> tuple[str, ...]:
        """The files whose name matches a pattern, ``mturk_*.jsonl``; a single file always does.

        Raises:
            TestsetError: None does; with the files that there are.
        """
        single = self._archive is None and self.path.is_file()
        matching = tuple(
            name
            for name in self.names
            if single or any(fnmatch(PurePosixPath(name).name, pattern) for pattern in patterns)
        )
        if not matching:
            raise TestsetError(
                f"no such file: {' or '.join(patterns)}",
                where=str(self.path),
                hint=f"it holds: {list_names(self.names, 8) or 'no files'}",
            )
        return matching

    def text(self, name: str) -> str:
        """The text of a file.

        Raises:
            TestsetError: It cannot be read, or is not UTF-8.
        """
        try:
            if self._archive is not None:
                data = self._archive.read(name)
            else:
                data = (self.path / name if self.path.is_dir() else self.path).read_bytes()
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise TestsetError(
                "the file is not UTF-8", where=self.where(name), hint="save the file as UTF-8"
            ) from error
        except (OSError, KeyError, zipfile.BadZipFile, RuntimeError) as error:
            raise TestsetError(f"cannot read the file: {error}", where=self.where(name)) from error

    def where(self, name: str, line: int | None = None) -> str:
        """The place of a file, and of a line in it, for errors."""
        place = f"{self.path}" if self.path.name == name else f"{self.path}/{name}"
        return place if line is None else f"{place}:{line}"

    def document(self, name: str) -> Any:
        """The JSON document in a file.

        Raises:
            TestsetError: It is not JSON.
        """
        return _parse_json(self.text(name), self.where(name))

    def objects(self, name: str) -> Iterator[tuple[str, SetEntry]]:
        """(Place, object) of every line of a JSONL file, or of every entry of a JSON array.

        Raises:
            TestsetError: A line is not a JSON object.
        """
        text = self.text(name)
        if text.lstrip()[:1] == "[":
            array = enumerate(_parse_json(text, self.where(name)), 1)
            entries = [(f"{self.where(name)} entry {number}", entry) for number, entry in array]
        else:
            lines = enumerate(text.splitlines(), 1)
            places = [(self.where(name, number), line) for number, line in lines if line.strip()]
            entries = [(place, _parse_json(line, place)) for place, line in places]
        for place, entry in entries:
            if not isinstance(entry, dict):
                raise TestsetError(f"this is {type(entry).__name__}, not an object", where=place)
            yield place, SetEntry(place, entry)

    def table(self, name: str) -> Iterator[tuple[str, SetEntry]]:
        """(Place, cells by column) of every line of a CSV file."""
        csv.field_size_limit(max(csv.field_size_limit(), _MOST_OF_A_CELL))
        reader = csv.DictReader(io.StringIO(self.text(name), newline=""))
        for cells in reader:
            place = self.where(name, reader.line_num)
            row = {column: cell or "" for column, cell in cells.items() if column is not None}
            yield place, SetEntry(place, row)

    def entries(self, *patterns: str) -> Iterator[tuple[str, int, SetEntry]]:
        """(Name of the file without suffix, number, entry) of every entry of matching files."""
        for name in self.named(*patterns):
            read = self.table if name.endswith(".csv") else self.objects
            for number, (_, entry) in enumerate(read(name)):
                yield PurePosixPath(name).stem, number, entry


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_hook=partial(SetEntry, where))
    except (ValueError, RecursionError) as error:
        raise TestsetError(f"this is not JSON: {error}", where=where) from error


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
                entry["message"],
                entry[f"{system}_response"],
                entry["knowledge"],
            ),
            {"faithfulness": {"people": 1.0 - entry.number(f"{system}_label")}},
            entry["episode_idx"],
            system,
            topic=entry["topic"],
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
    (name, *_) = files.named("*hard_neg*.csv", "*.csv")
    rated = tuple(
        RatedAnswer(
            _ground_response(
                str(number), entry["query"], entry["query"], entry["expected_response"]
            ),
            {"relevance": {"people": entry.number("expected_score")}},
            entry["query"],
        )
        for number, (_, entry) in enumerate(files.table(name))
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
    (name, *_) = files.named("human_evaluations.json", "*human_evaluations.json")
    body = files.document(name)
    if not isinstance(body, SetEntry):
        raise TestsetError("this is not the file of MTRAG's evaluations", where=files.where(name))
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
    judged: dict[str, list[SetEntry]] = {}
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
