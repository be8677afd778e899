"""Published sets of verdicts of people, in a folder, a file or a zip archive.

Each function reads one set from its own files: QAGS (Wang et al. 2020), Q2 (Honovich et al. 2021),
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
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from ....core import Row, TestsetError, list_names
from ....testsets import read_qrels
from .._people import Dimension, PeopleSet, RatedAnswer, note_left_out

_SUMMARISE = "What does the article say?"
_CLAIM = "Is the claim true?"
_EVOUNA_SYSTEMS = ("fid", "gpt35", "chatgpt", "gpt4", "newbing")


def qags(files: SetFiles) -> PeopleSet:
    """QAGS: sentences of summaries, each supported by its article or not; three people each."""
    rated = []
    for name in files.named("mturk_*.jsonl"):
        collection = PurePosixPath(name).stem.removeprefix("mturk_")
        for number, (where, entry) in enumerate(files.objects(name)):
            article = member(entry, "article", where)
            for place, sentence in enumerate(member(entry, "summary_sentences", where)):
                text = member(sentence, "sentence", where)
                row = _ground_response(f"{collection}-{number}-{place}", _SUMMARISE, text, article)
                votes = {
                    str(vote["worker_id"]): float(vote["response"] == "yes")
                    for vote in member(sentence, "responses", where)
                }
                rated.append(
                    RatedAnswer(row, {"faithfulness": votes}, f"{collection}-{number}", collection)
                )
    scale = Dimension("faithfulness", 0, 1, "1 supported by the article (yes), 0 not (no)")
    return PeopleSet("qags", tuple(rated), (scale,), ("each row is one sentence of a summary",))


def q2(files: SetFiles) -> PeopleSet:
    """Q2: replies of two systems in dialogues, consistent with the given knowledge or not."""
    rated = []
    for name in files.named("cross_annotation.csv"):
        for number, (where, entry) in enumerate(files.table(name)):
            for system in ("dodeca", "memnet"):
                mark = member(entry, f"{system}_label", where)
                if mark not in ("0", "1"):
                    raise TestsetError(
                        f"{system}_label is {mark!r}, neither 0 (consistent) nor 1 (inconsistent)",
                        where=where,
                    )
                row = _ground_response(
                    f"{number}-{system}",
                    member(entry, "message", where),
                    member(entry, f"{system}_response", where),
                    member(entry, "knowledge", where),
                )
                labels = {"faithfulness": {"people": 1.0 - float(mark)}}
                task, topic = member(entry, "episode_idx", where), member(entry, "topic", where)
                rated.append(RatedAnswer(row, labels, task, system, topic=topic))
    mapping = "turned: 1 consistent with the knowledge (0 in the file), 0 inconsistent (1)"
    return PeopleSet(
        "q2",
        tuple(rated),
        (Dimension("faithfulness", 0, 1, mapping),),
        ("a task is one dialogue",),
    )


def climate_fever(files: SetFiles) -> PeopleSet:
    """CLIMATE-FEVER: claims and sentences of evidence, two to five votes on each pair."""
    rated = []
    (name, *_) = files.named("climate-fever.jsonl")
    for where, entry in files.objects(name):
        for place, evidence in enumerate(member(entry, "evidences", where)):
            votes = {
                f"vote {number}": float(vote == "SUPPORTS")
                for number, vote in enumerate(member(evidence, "votes", where), 1)
                if vote is not None
            }
            claim = member(entry, "claim_id", where)
            row = _ground_response(
                f"{claim}-{place}",
                _CLAIM,
                member(entry, "claim", where),
                member(evidence, "evidence", where),
            )
            rated.append(RatedAnswer(row, {"support": votes}, str(claim)))
    mapping = "1 SUPPORTS, 0 REFUTES or NOT_ENOUGH_INFO"
    return PeopleSet("climate_fever", tuple(rated), (Dimension("support", 0, 1, mapping),))


def trulens(files: SetFiles) -> PeopleSet:
    """TruLens: questions of MS MARCO with a relevant passage or a hard negative."""
    rated = []
    (name, *_) = files.named("*hard_neg*.csv", "*.csv")
    for number, (where, entry) in enumerate(files.table(name)):
        question = member(entry, "query", where)
        label = _number(member(entry, "expected_score", where), "expected_score", where)
        row = _ground_response(
            str(number), question, question, member(entry, "expected_response", where)
        )
        rated.append(RatedAnswer(row, {"relevance": {"people": label}}, question))
    note = (
        "the question stands in for the response, so that KPrecision is the share of its words in "
        "the passage"
    )
    return PeopleSet("trulens", tuple(rated), (Dimension("relevance", 0, 1),), (note,))


def evouna(files: SetFiles) -> PeopleSet:
    """EVOUNA: answers of five systems to open questions, right or wrong."""
    rated, improper, missing = [], 0, 0
    for name in files.named("NQ.json", "TQ.json"):
        collection = PurePosixPath(name).stem
        for number, (where, entry) in enumerate(files.objects(name)):
            accepted = str(member(entry, "golden_answer", where) or "").split("/")
            accepted = [text.strip() for text in accepted if text.strip()]
            if member(entry, "improper", where):
                improper += 1
                continue
            for system in _EVOUNA_SYSTEMS:
                verdict, answer = entry.get(f"judge_{system}"), entry.get(f"answer_{system}")
                if not isinstance(verdict, bool) or not isinstance(answer, str) or not accepted:
                    missing += 1
                    continue
                row = Row(
                    f"{collection}-{number}-{system}",
                    member(entry, "question", where),
                    answer,
                    accepted[0],
                    metadata={"references": tuple(accepted)},
                )
                labels = {"correctness": {"people": float(verdict)}}
                rated.append(RatedAnswer(row, labels, f"{collection}-{number}", system))
    notes = (
        *note_left_out(improper, "question", " marked improper"),
        *note_left_out(missing, "answer", " without a text, a verdict or an accepted answer"),
    )
    mapping = "1 right (true), 0 wrong (false)"
    return PeopleSet("evouna", tuple(rated), (Dimension("correctness", 0, 1, mapping),), notes)


_MTRAG = (
    Dimension("faithfulness", 1, 4),
    Dimension("completeness", 1, 4),
    Dimension("appropriateness", 1, 4),
    Dimension("naturalness", 1, 4),
    Dimension("win-rate", 0, 100),
)


def mtrag(files: SetFiles) -> PeopleSet:
    """MTRAG: answers of two models within conversations, judged by two or three people.

    The reference answers and answers without passages are left out. The stored values of RAGAS
    (``rl_f``), of a RADBench judge (``rb_llm``) and of other measures are recorded verdicts.
    """
    patterns = ("human_evaluations.json", "*human_evaluations.json")
    (name, *_) = files.named(*patterns)
    body, where = files.document(name), files.where(name)
    if not isinstance(body, dict):
        raise TestsetError("this is not the file of MTRAG's evaluations", where=where)
    texts = {d["document_id"]: d["text"] for d in member(body, "documents", where)}
    tasks = {task["task_id"]: task for task in member(body, "tasks", where)}
    scales = {
        metric["name"]: (float(metric["range"][0]), float(metric["range"][1]))
        for metric in member(body, "metrics", where)
        if metric.get("author") == "algorithm" and metric.get("range")
    }
    rated, references, bare = [], 0, 0
    for evaluation in member(body, "evaluations", where):
        task, model = tasks[evaluation["task_id"]], evaluation["model_id"]
        if model == "reference":
            references += 1
        elif not task["contexts"]:
            bare += 1
        else:
            rated.append(_mtrag_answer(evaluation, task, texts, scales))
    notes = (
        *note_left_out(references, "reference answer"),
        *note_left_out(bare, "answer", " without passages"),
    )
    return PeopleSet("mtrag", tuple(rated), _MTRAG, notes, scales)


def _mtrag_answer(
    evaluation: Mapping[str, Any],
    task: Mapping[str, Any],
    texts: Mapping[str, str],
    scales: Mapping[str, tuple[float, float]],
) -> RatedAnswer:
    model, marks = evaluation["model_id"], evaluation["annotations"]
    row = Row(
        f"{task['task_id']}-{model}",
        task["input"][-1]["text"],
        evaluation["model_response"],
        task["targets"][0]["text"] if task["targets"] else "",
        retrieved_contexts=tuple(texts[context["document_id"]] for context in task["contexts"]),
    )
    labels = {
        dimension.name: {person: float(mark["value"]) for person, mark in marks[name].items()}
        for dimension in _MTRAG
        if (name := dimension.name) in marks
    }
    verdicts = {
        name: float(stored["value"])
        for name in scales
        for stored in marks.get(name, {}).values()
        if isinstance(stored.get("value"), int | float)
    }
    return RatedAnswer(
        row, labels, task["task_id"], model, verdicts, topic=str(task.get("Collection", ""))
    )


def _number(text: str, column: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise TestsetError(f"{column} is {text[:40]!r}, not a number", where=where) from error


def _ground_response(name: str, question: str, response: str, knowledge: str) -> Row:
    """A response to be held against knowledge, which is the reference of text measures too."""
    return Row(name, question, response, knowledge, retrieved_contexts=(knowledge,))


_ASPECTS = ("correctness", "completeness", "overall")


def ragchecker(files: SetFiles) -> PeopleSet:
    """RAGChecker: pairs of answers and preferences from -2 to 2; two people judged each pair.

    The differences of RAGChecker's own scores are recorded verdicts, if its file is there.
    """
    entries: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    published: dict[str, dict[str, float]] = {}
    for name in files.named("human_labeled_data.json", "baseline_ragchecker.json"):
        for where, entry in files.objects(name):
            pair = str(member(entry, "instance_id", where))
            scores = [entry.get(side, {}).get("ragchecker") for side in ("model1", "model2")]
            if all(scores):
                published[pair] = {
                    f"ragchecker {aspect}": scores[1][f"{aspect}_label"]
                    - scores[0][f"{aspect}_label"]
                    for aspect in _ASPECTS
                }
            else:
                entries.setdefault(pair, []).append((where, entry))
    if not entries:
        raise TestsetError(
            "there are no judgments of people",
            where=str(files.path),
            hint="human_labeled_data.json holds them; the other file holds RAGChecker's scores",
        )
    rated = tuple(
        _read_rated_pair(pair, of, published.get(pair, {})) for pair, of in entries.items()
    )
    mapping = "-2 the first answer is much better, 2 the second"
    dimensions = tuple(Dimension(aspect, -2, 2, mapping) for aspect in _ASPECTS)
    note = "each row is a pair; a judge's verdict is its score of the second answer minus the first"
    return PeopleSet("ragchecker", rated, dimensions, (note,))


def _read_rated_pair(
    pair: str, entries: list[tuple[str, Mapping[str, Any]]], published: Mapping[str, float]
) -> RatedAnswer:
    where, entry = entries[0]
    rows: list[Row] = []
    models = []
    for side in ("model1", "model2"):
        model = member(entry, side, where)
        models.append(str(model.get("model_name", side)))
        rows.append(
            Row(
                pair if not rows else f"{pair}-second",
                member(entry, "query", where),
                member(model, "response", where),
                member(entry, "gt_answer", where),
            )
        )
    labels = {
        aspect: {
            f"annotator {number}": float(member(judged, f"{aspect}_label", place))
            for number, (place, judged) in enumerate(entries, 1)
        }
        for aspect in _ASPECTS
    }
    first, second = rows
    task = f"{entry.get('dataset', '')} {entry.get('query_id', pair)}"
    return RatedAnswer(
        first, labels, task, " vs ".join(models), published, second, str(entry.get("dataset", ""))
    )


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
    rated = tuple(
        RatedAnswer(
            Row(row_id, topic),
            {"relevance": {"assessor": float(grade)}},
            topic,
        )
        for row_id, (topic, grade) in read_graded_rows(files.path.as_posix()).items()
    )
    best = max(label for item in rated for label in item.labels["relevance"].values())
    worst = min(label for item in rated for label in item.labels["relevance"].values())
    grades = Dimension("relevance", min(0.0, worst), max(1.0, best))
    dimensions = [grades]
    if grades.high > 1:
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


_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|git@|[\w.-]+@[\w.-]+:)", re.IGNORECASE)
_MOST_OF_A_CELL = 1 << 26


class SetFiles:
    """The files of a set, wherever they are.

    Args:
        path: A folder, a file, a zip archive, or a folder with one zip archive.

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
        self._archive: zipfile.ZipFile | None = None
        if self.path.is_file() and zipfile.is_zipfile(self.path):
            self._archive = zipfile.ZipFile(self.path)
        elif self.path.suffix.lower() == ".zip":
            raise TestsetError(
                "not a zip archive that can be read", where=path, hint="download it again"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Paths of all files within the set, sorted; of a single file its name."""
        if self._archive is not None:
            names = [info.filename for info in self._archive.infolist() if not info.is_dir()]
        elif self.path.is_dir():
            files = (path for path in self.path.rglob("*") if path.is_file())
            names = [path.relative_to(self.path).as_posix() for path in files]
        else:
            names = [self.path.name]
        return tuple(
            sorted(
                name
                for name in names
                if not any(
                    part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts
                )
            )
        )

    def named(self, *patterns: str) -> tuple[str, ...]:
        """The files whose name matches a pattern, ``mturk_*.jsonl``; a single file always does.

        Raises:
            TestsetError: None does; with the files that there are.
        """
        if self._archive is None and self.path.is_file():
            return self.names
        matching = [
            name
            for name in self.names
            if any(fnmatch(PurePosixPath(name).name, pattern) for pattern in patterns)
        ]
        if not matching:
            raise TestsetError(
                f"there is no file {' or '.join(patterns)}",
                where=str(self.path),
                hint=f"it holds: {list_names(self.names, 8) or 'no files'}",
            )
        return tuple(matching)

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

    def objects(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """(Place, object) of every line of a JSONL file, or of every entry of a JSON array.

        Raises:
            TestsetError: A line is not a JSON object.
        """
        text = self.text(name)
        if text.lstrip()[:1] == "[":
            entries = [
                (f"{self.where(name)} entry {number}", entry)
                for number, entry in enumerate(_parse_json(text, self.where(name)), 1)
            ]
        else:
            lines = enumerate(text.splitlines(), 1)
            entries = [
                (self.where(name, number), _parse_json(line, self.where(name, number)))
                for number, line in lines
                if line.strip()
            ]
        for place, entry in entries:
            if not isinstance(entry, dict):
                raise TestsetError(f"this is {type(entry).__name__}, not an object", where=place)
            yield place, entry

    def table(self, name: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """(Place, cells by column) of every line of a CSV file."""
        csv.field_size_limit(max(csv.field_size_limit(), _MOST_OF_A_CELL))
        reader = csv.DictReader(io.StringIO(self.text(name), newline=""))
        for cells in reader:
            yield (
                self.where(name, reader.line_num),
                {column: cell or "" for column, cell in cells.items() if column is not None},
            )


def member(entry: Mapping[str, Any], name: str, where: str) -> Any:
    """A value of an object of a set.

    Raises:
        TestsetError: The object has no such key; with those that it has.
    """
    if name not in entry:
        raise TestsetError(
            f"there is no {name!r}",
            where=where,
            hint=f"is this the right set? Columns: {list_names(list(entry), 12) or 'none'}",
        )
    return entry[name]


def _parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TestsetError(f"this is not JSON: {error}", where=where) from error
