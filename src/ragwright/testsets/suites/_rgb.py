"""Suites from files of the RGB benchmark (Chen and others 2024), read in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...core import GoldSpan, Row, TestsetError
from ...models import words
from ..rows import objects_of
from ._gold_answers import GoldAnswer
from ._suites import SUITES, Evidence, SuiteOptions, SuiteRows, check_distractors, suite_rows

_FORM = "write rgb:FILE/SUITE, the suite being all, " + ", ".join(SUITES)


@dataclass(frozen=True, slots=True)
class RgbQuestion:
    """One question of a file.

    Attributes:
        id: Number of the question in its file.
        question: The question.
        answer: Its parts, each with the accepted wordings.
        positive: Relevant passages of each part; one group if the file has no parts.
        negative: Irrelevant passages.
        false: Falsified versions of the relevant passages, in the order of the only group.
        fake: The answers in the falsified passages.
    """

    id: str
    question: str
    answer: GoldAnswer
    positive: tuple[tuple[str, ...], ...]
    negative: tuple[str, ...]
    false: tuple[str, ...] = ()
    fake: tuple[str, ...] = ()


def rgb_rows(address: str, options: SuiteOptions | None = None) -> SuiteRows:
    """Return the rows of ``rgb:FILE/SUITE``; ``all`` for every suite that the file allows.

    Falsified passages are those of the file. Irrelevant ones are checked like any other: those that
    reveal the answer are left out, and counted in the notes.

    Raises:
        TestsetError: The address, the file or a line is wrong, or the file does not allow this
            suite.
    """
    path, _, suite = address.removeprefix("rgb:").replace("\\", "/").rpartition("/")
    if not path or suite not in (*SUITES, "all"):
        raise TestsetError(f"cannot read {address!r} as a testset", hint=_FORM)
    suite_options = options or SuiteOptions()
    if suite != "all":
        suite_options = replace(suite_options, suites=(suite,))
    dropped: Counter[str] = Counter()
    evidence = [_rgb_evidence(question, Path(path).stem, dropped) for question in read_rgb(path)]
    suite_set = suite_rows(evidence, suite_options, where=path)
    drop_notes = tuple(
        f"{count} {reason} are left out" for reason, count in sorted(dropped.items())
    )
    return SuiteRows(suite_set.rows, (*drop_notes, *suite_set.notes))


def read_rgb(path: str | Path) -> tuple[RgbQuestion, ...]:
    """Read the questions of an RGB file (JSON lines), in order.

    ``answer`` is a text or a list of parts, each a text or a list of wordings, as in the
    benchmark's own check: every part must occur, each in one of its wordings. ``positive`` is a
    list of passages, or one list per part.

    Raises:
        TestsetError: A line lacks a field or has it in another form; with file and line.
    """
    questions: dict[str, RgbQuestion] = {}
    language = _language_of_file(Path(path))
    for where, value in objects_of(Path(path)):
        question = _rgb_question(value, where, language)
        if question.id in questions:
            raise TestsetError(f"id {question.id} occurs twice", where=where)
        questions[question.id] = question
    if not questions:
        raise TestsetError("the file holds no questions", where=str(path))
    return tuple(questions.values())


def _rgb_question(value: Mapping[str, Any], where: str, language: str) -> RgbQuestion:
    for name in ("id", "query", "answer", "positive", "negative"):
        if value.get(name) is None:
            raise TestsetError(
                f"the line has no {name!r}", where=where, hint="is this a file of RGB?"
            )
    question = value["query"]
    if not isinstance(question, str) or not question.strip():
        raise TestsetError("query is not a text", where=where)
    answer, parts = value["answer"], []
    for part in answer if isinstance(answer, list) else [answer]:
        parts.append(_distinct_texts("answer", part if isinstance(part, list) else [part], where))
    if not parts or not all(parts):
        raise TestsetError("answer is empty", where=where)
    positive = value["positive"]
    groups = positive if positive and isinstance(positive[0], list) else [positive]
    false = _distinct_texts("positive_wrong", value.get("positive_wrong", []), where)
    fake = value.get("fakeanswer", [])
    return RgbQuestion(
        str(value["id"]),
        question,
        GoldAnswer(
            tuple(parts),
            language
            or ("en" if any(w.isascii() and w.isalpha() for w in words(question)) else "zh"),
        ),
        tuple(_distinct_texts("positive", group, where) for group in groups),
        _distinct_texts("negative", value["negative"], where),
        false,
        _distinct_texts("fakeanswer", fake if isinstance(fake, list) else [fake], where),
    )


def _distinct_texts(name: str, value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise TestsetError(f"{name} is not a list of texts", where=where)
    return tuple(dict.fromkeys(text for text in value if text.strip()))


def _language_of_file(path: Path) -> str:
    """Return the language in the file's name: ``en_fact``, ``zh_int``."""
    head = path.stem.partition("_")[0]
    return head if head in ("en", "zh") else ""


def _rgb_evidence(question: RgbQuestion, file: str, dropped: Counter[str]) -> Evidence:
    """Sort a question's passages by their part in a context."""
    name = f"rgb:{file}:{question.id}"
    numbers = iter(range(10_000))

    def passages(texts: Sequence[str]) -> tuple[GoldSpan, ...]:
        # The id does not reveal the passage's role: it may be shown.
        return tuple(GoldSpan(f"{name}:{next(numbers)}", 0, len(text), text) for text in texts)

    groups = [passages(group) for group in question.positive]
    gold = tuple(group[0] for group in groups if group)
    longest = max(map(len, groups), default=0)
    more = tuple(group[at] for at in range(1, longest) for group in groups if at < len(group))
    false = passages(question.false)
    paired = len(groups) == 1 and len(false) == len(groups[0])
    relevant = gold + more
    noise = passages(question.negative)
    distractors = tuple(check_distractors(noise, relevant, question.answer, dropped))
    return Evidence(
        Row(id=question.id, user_input=question.question),
        question.answer,
        gold,
        more,
        distractors,
        frozenset(span.text for span in distractors),
        tuple(zip(groups[0], false, strict=True)) if paired else (),
        question.fake,
    )
