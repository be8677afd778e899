"""Published sets in which people judged single answers.

Each function reads one set from its own files: QAGS (Wang et al. 2020), Q2 (Honovich et al. 2021),
CLIMATE-FEVER (Diggelmann et al. 2020), EVOUNA (Wang et al. 2023), MTRAG (Katsis et al. 2025), and
the context relevance set of TruLens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from ...core import Row, TestsetError
from .._people import Dimension, PeopleSet, Rated, note_left_out
from ._files import SetFiles, member

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
                row = _grounded(f"{collection}-{number}-{place}", _SUMMARISE, text, article)
                votes = {
                    str(vote["worker_id"]): float(vote["response"] == "yes")
                    for vote in member(sentence, "responses", where)
                }
                rated.append(
                    Rated(row, {"faithfulness": votes}, f"{collection}-{number}", collection)
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
                row = _grounded(
                    f"{number}-{system}",
                    member(entry, "message", where),
                    member(entry, f"{system}_response", where),
                    member(entry, "knowledge", where),
                )
                labels = {"faithfulness": {"people": 1.0 - float(mark)}}
                task, topic = member(entry, "episode_idx", where), member(entry, "topic", where)
                rated.append(Rated(row, labels, task, system, topic=topic))
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
            row = _grounded(
                f"{claim}-{place}",
                _CLAIM,
                member(entry, "claim", where),
                member(evidence, "evidence", where),
            )
            rated.append(Rated(row, {"support": votes}, str(claim)))
    mapping = "1 SUPPORTS, 0 REFUTES or NOT_ENOUGH_INFO"
    return PeopleSet("climate_fever", tuple(rated), (Dimension("support", 0, 1, mapping),))


def trulens(files: SetFiles) -> PeopleSet:
    """TruLens: questions of MS MARCO with a relevant passage or a hard negative."""
    rated = []
    (name, *_) = files.named("*hard_neg*.csv", "*.csv")
    for number, (where, entry) in enumerate(files.table(name)):
        question = member(entry, "query", where)
        label = _number(member(entry, "expected_score", where), "expected_score", where)
        row = _grounded(str(number), question, question, member(entry, "expected_response", where))
        rated.append(Rated(row, {"relevance": {"people": label}}, question))
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
                rated.append(Rated(row, labels, f"{collection}-{number}", system))
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
) -> Rated:
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
        name: float(value) for name in scales for value in _stored_values(marks.get(name, {}))
    }
    topic = str(task.get("Collection", ""))
    return Rated(row, labels, task["task_id"], model, verdicts, topic=topic)


def _stored_values(mark: Mapping[str, Any]) -> Iterator[float]:
    for stored in mark.values():
        if isinstance(stored.get("value"), int | float):
            yield stored["value"]


def _number(text: str, column: str, where: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise TestsetError(f"{column} is {text[:40]!r}, not a number", where=where) from error


def _grounded(name: str, question: str, response: str, knowledge: str) -> Row:
    """A response to be held against knowledge, which is the reference of text measures too."""
    return Row(name, question, response, knowledge, retrieved_contexts=(knowledge,))
