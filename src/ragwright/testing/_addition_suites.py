"""The conformance suites of measures, judges, stages, commands and steps."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from ..core import (
    Document,
    Filter,
    MeasureError,
    RagwrightError,
    Row,
    Score,
    SourceError,
    TestsetError,
)
from ..experiment import Evaluation, Questions, evaluate
from ..flow import FetchReply, Runner
from ..ingest import Failure, FetchBytes, Reader, SuffixReader, catch_failures, normalise
from ..measure import (
    GateOptions,
    GateRule,
    MeasureSetup,
    gate,
    load_shipped_rubrics,
    parse_measure,
    parse_rule,
    score_row,
)
from ..report import failing_text, gate_table, summary_table
from ..retrieve import Retrieved, RetrieveOptions, Stage, retrieve
from ._model_suites import index_corpus

_QUERY = "oil pressure sensor valve filter pump"


class MeasureSuite:
    """Inherit it and name the measure; an installed name, or ``module:function``.

    For example::

        class TestMine(MeasureSuite):
            measure = "WordsPerSentence"
            rows = (Row("1", response="One. Two words."),)

    Attributes:
        measure: The measure as it is written after ``--measures``.
        rows: Rows that it scores.
        setup: Models, for a measure that uses one.
    """

    measure: str = ""
    rows: Sequence[Row] = ()
    setup: MeasureSetup = MeasureSetup()

    def score(self, row: Row) -> Score:
        """The score of a row."""
        with Runner({}) as runner:
            [score] = runner.run(score_row(row, [parse_measure(self.measure)], self.setup))
        return score

    def test_its_text_parses_back(self) -> None:
        """The text of a measure is its name everywhere."""
        assert self.measure, "set measure to its name"
        assert str(parse_measure(self.measure)) == self.measure
        assert parse_measure(self.measure).definition.summary.strip(), "write a docstring"

    def test_rows_are_scored_on_its_scale(self) -> None:
        """Values are finite numbers on the scale that it declares."""
        assert self.rows, "name rows that it scores"
        scale = parse_measure(self.measure).known_scale
        for row in self.rows:
            score = self.score(row)
            assert score.state == "scored", score.reason
            assert score.value is not None
            assert math.isfinite(score.value)
            if scale is not None:
                assert scale.low <= score.value <= (math.inf if scale.high is None else scale.high)

    def test_missing_input_is_not_applicable(self) -> None:
        """A row without a field that it needs has no value, and a reason; it is not an error."""
        for name in parse_measure(self.measure).definition.needs:
            for row in self.rows:
                empty: Any = () if isinstance(getattr(row, name), tuple) else None
                score = self.score(replace(row, **{name: empty}))
                assert score.state in ("not_applicable", "abstained"), f"{name}: {score.state}"
                assert score.value is None
                assert score.reason

    def test_equal_rows_have_equal_scores(self) -> None:
        """Scoring again gives the same."""
        for row in self.rows:
            assert self.score(row) == self.score(row)


class JudgeSuite:
    """Inherit it and name the judge: an installed name, or ``module:object``.

    Attributes:
        judge: As in ``judge.by``.
        rubrics: Shipped rubrics that it can judge by.
        sure: True for a judge without chance: the same row has the same verdict.
    """

    judge: str = ""
    rubrics: Sequence[str] = ("Faithfulness", "AnswerRelevance")
    sure: bool = True

    def verdict(self, rubric: str, row: Row) -> Score:
        """The score of a row by a shipped rubric."""
        with Runner({}) as runner:
            setup = MeasureSetup(by=self.judge)
            return runner.run(score_row(row, [parse_measure(f"Rubric({rubric})")], setup))[0]

    def test_verdicts_are_on_the_scale(self) -> None:
        """A verdict is a score on the rubric's scale, or none with the reason."""
        row = Row(
            "1",
            "Which fuse is it?",
            response="The fuse F3.",
            reference="F3",
            retrieved_contexts=("The pump has the fuse F3.",),
        )
        for name in self.rubrics:
            low, high = load_shipped_rubrics()[name].scale
            score = self.verdict(name, row)
            assert score.state in ("scored", "judge_invalid"), score.reason
            if score.value is None:
                assert score.reason
                assert "is not on the scale" not in score.reason
            else:
                assert low <= score.value <= high
            if self.sure:
                assert self.verdict(name, row) == score

    def test_odd_texts_are_judged(self) -> None:
        """Empty passages, other scripts and long texts do not fail."""
        for text in ("x", "漢字 🙂", "word " * 5000):
            row = Row("1", text, response=text, retrieved_contexts=(text,))
            for name in self.rubrics:
                assert self.verdict(name, row).state in ("scored", "judge_invalid")


class StageSuite:
    """Inherit it and say how to make the stage.

    It is run on an index of forty small documents.
    """

    def make(self) -> Stage:
        """The stage under test, with its settings."""
        raise NotImplementedError("return the stage under test")

    @pytest.fixture
    def ask(self, tmp_path: Path) -> Iterator[Callable[..., Retrieved]]:
        """Search with the stage; keyword arguments are options."""
        with index_corpus(tmp_path) as (routes, target):

            def search(query: str, **options: Any) -> Retrieved:
                staged = replace(target, stages=(self.make(),))
                with Runner(routes) as runner:
                    return runner.run(retrieve(query, staged, RetrieveOptions(**options)))

            yield search

    def test_it_has_a_name(self) -> None:
        """The name is that of its section of settings, and that in explanations."""
        assert self.make().name, "set name in the class"

    def test_hits_are_ranked_and_each_once(self, ask: Callable[..., Retrieved]) -> None:
        """At most ``top_k`` hits come out, with ranks from 1, finite scores, and its name."""
        for top_k in (1, 3, 50):
            hits = ask(_QUERY, top_k=top_k).hits
            assert len(hits) <= top_k
            assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
            assert len({hit.chunk_id for hit in hits}) == len(hits)
            assert all(math.isfinite(hit.score) for hit in hits)
            assert all(self.make().name in hit.channels for hit in hits)

    def test_hard_filters_hold(self, ask: Callable[..., Retrieved]) -> None:
        """A stage that searches again keeps to the filters."""
        only = Filter("client", ("client 3",))
        hits = ask(_QUERY, top_k=20, filters=(only,)).hits
        assert {hit.metadata["client"] for hit in hits} <= {"client 3"}

    def test_no_hits_are_no_error(self, ask: Callable[..., Retrieved]) -> None:
        """A search without results reaches the stage with an empty tuple."""
        assert isinstance(ask("zyxwv", search="keyword"), Retrieved)

    def test_the_same_question_has_the_same_hits(self, ask: Callable[..., Retrieved]) -> None:
        """The stage is repeatable."""
        assert ask(_QUERY).hits == ask(_QUERY).hits


class CommandSuite:
    """Inherit it and name the command; it is called as on the command line.

    The fixture ``folder`` is where it is called: an empty folder, unless you offer another.

    Attributes:
        command: Its name.
        arguments: Arguments with which it succeeds there.
    """

    command: str = ""
    arguments: Sequence[str] = ()

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Where the command is called."""
        return tmp_path

    def run(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """The outcome of ``ragwright WORDS`` in a folder."""
        return subprocess.run(
            [sys.executable, "-m", "ragwright", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
        )

    def test_the_help_page_lists_it(self, folder: Path) -> None:
        """`ragwright --help` shows its name with a sentence, and `--help` of its own works."""
        listed = self.run(folder, "--help").stdout
        [line] = [line for line in listed.splitlines() if line.split()[:1] == [self.command]]
        assert len(line.split()) > 1
        assert self.run(folder, self.command, "--help").returncode == 0

    def test_it_succeeds(self, folder: Path) -> None:
        """It ends with exit code 0; what a command says about its work goes to standard error."""
        done = self.run(folder, self.command, *self.arguments)
        assert done.returncode == 0, done.stderr

    def test_an_unknown_option_is_a_usage_error(self, folder: Path) -> None:
        """The exit code is 2, without a traceback."""
        done = self.run(folder, self.command, "--no-such-option")
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


class StepSuite:
    """Inherit it, name the step, and offer the fixture ``folder``: a project to run it on.

    Attributes:
        step: Its installed name.
        arguments: Arguments with which it succeeds on the project.
    """

    step: str = ""
    arguments: Sequence[str] = ()

    @pytest.fixture
    def folder(self) -> Path:
        """A project on which the step succeeds."""
        raise NotImplementedError("offer a fixture named folder")

    def test_it_succeeds(self, folder: Path) -> None:
        """`ragwright job step NAME` ends with exit code 0."""
        done = subprocess.run(
            [sys.executable, "-m", "ragwright", "job", "step", self.step, *self.arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


class RagGate(Protocol):
    """Scores rows and fails the test unless they meet every rule; see :func:`hold`."""

    def __call__(
        self,
        rows: Questions,
        *rules: str,
        system: object = None,
        setup: MeasureSetup | None = None,
        floor: float = 0.95,
        least: int = 10,
    ) -> Evaluation:
        """The evaluation, where every rule is met."""


def hold(
    rows: Questions,
    *rules: str,
    system: object = None,
    setup: MeasureSetup | None = None,
    floor: float = 0.95,
    least: int = 10,
) -> Evaluation:
    """Score rows by the measures of the rules, and fail the running test unless all are met.

    The message names the rows that fail; a rule that cannot be read is one line.

    Args:
        rows: Answered rows, or questions for ``system``: a file, objects, a data frame.
        rules: ``TokenF1>=0.6``, ``Recall@5>=0.8``.
        system: Answers the questions first: a function, a LangChain or LlamaIndex object, an
            address; as ``ragwright eval --system``.
        setup: Judge and other models.
        floor: Least share of the rows with gold that have a score, 0 to 1.
        least: Least number of scored rows; a mean of fewer is not trusted, and fails too.

    Raises:
        MeasureError: A measure needs a model that is not set.
        SystemCallError: The system fails on the first rows.
    """
    parsed = [_parsed(rule) for rule in rules]
    measures = list(dict.fromkeys(rule.measure for rule in parsed))
    evaluation, problem = None, "no row has a score"
    try:
        evaluation = evaluate(rows, measures, setup, system=system)
    except TestsetError as error:
        if system is not None:
            raise
        problem = str(error)
    # Outside the except block, or pytest prints the cause above the message.
    if evaluation is None or (system is None and not any(s.n for s in evaluation.summaries)):
        pytest.fail(problem + _WHO_ANSWERS, pytrace=False)
    outcome = gate(evaluation.summaries, parsed, GateOptions(floor, least=least))
    if outcome.state != "passed":
        table = summary_table(evaluation.summaries, notes=evaluation.notes)
        weak = failing_text(evaluation.results, outcome)
        blocks = [block for block in (gate_table(outcome), weak, table) if block]
        pytest.fail("\n\n".join(blocks), pytrace=False)
    return evaluation


_WHO_ANSWERS = (
    "\nQuestions need a system that answers them: rag_gate(…, system='mine:answer'). A run of the "
    "project: ragwright gate latest --rule 'TokenF1>=0.6'"
)


def _parsed(rule: str) -> GateRule:
    """A rule; one that cannot be read fails the test in one line."""
    try:
        return parse_rule(rule)
    except MeasureError as error:
        meant = re.match("did you mean [^?]*[?]", error.hint or "")
        hint = meant[0] if meant else error.hint
        message = f"rule {rule!r}: {error.what}; {hint}"
    # Outside the except block, or pytest prints the cause above the one line.
    pytest.fail(message, pytrace=False)


class ReaderSuite:
    """Tests that every reader passes; subclass it and offer the fixtures.

    ``reader`` and ``source`` (something it can read) are needed. ``missing`` is a source of
    its kind that does not exist; ``fetch`` answers for the network, by default with an error.

    .. code-block:: python

        class TestMine(ReaderSuite):
            @pytest.fixture
            def reader(self) -> Reader:
                return ChatLogReader()

            @pytest.fixture
            def source(self, tmp_path: Path) -> str:
                (tmp_path / "a.log").write_text("09:00 Ann: Hello")
                return f"chatlog:{tmp_path}"
    """

    @pytest.fixture
    def reader(self) -> Reader:
        """The reader under test."""
        raise NotImplementedError("offer a fixture named reader")

    @pytest.fixture
    def source(self) -> str:
        """A source that holds at least one document."""
        raise NotImplementedError("offer a fixture named source")

    @pytest.fixture
    def missing(self) -> str:
        """A source of the reader's kind that does not exist."""
        pytest.skip("no fixture named missing")

    @pytest.fixture
    def fetch(self) -> FetchBytes:
        """The network."""

        def offline(url: str) -> FetchReply:
            raise SourceError("the test offers no network", where=url)

        return offline

    @pytest.fixture
    def documents(self, reader: Reader, source: str, fetch: FetchBytes) -> list[Document]:
        """What the source holds."""
        return [item for item in reader.read(source, fetch) if isinstance(item, Document)]

    def test_it_accepts_its_source(self, reader: Reader, source: str) -> None:
        """A reader decides by the address alone, and always the same; one of a suffix by that."""
        if isinstance(reader, SuffixReader):
            for suffix in reader.suffixes:
                assert suffix == suffix.lower(), f"write {suffix!r} in lower case"
                assert suffix[0] == ".", f"write {suffix!r} with its dot"
            assert Path(source).suffix.lower() in reader.suffixes, "the source has another suffix"
        accepted = not isinstance(reader, SuffixReader)
        assert reader.accepts(source) is accepted
        assert reader.accepts(source) is accepted

    def test_it_has_a_name(self, reader: Reader) -> None:
        """A reader has a name, for messages and reports."""
        assert reader.name, "set name in the class"

    def test_items_come_one_by_one(self, reader: Reader, source: str, fetch: FetchBytes) -> None:
        """A reader returns an iterator of documents and failures."""
        items = reader.read(source, fetch)
        assert isinstance(items, Iterator)
        for item in items:
            assert isinstance(item, Document | Failure)

    def test_documents_hold_normalised_text(self, documents: list[Document]) -> None:
        """Spans point into the normalised text; a document without text is a failure."""
        assert documents, "the source holds no document"
        for document in documents:
            assert document.text.strip(), f"{document.id}: yield a Failure, not an empty document"
            said = f"{document.id}: pass the text through normalise of ragwright.ingest"
            assert normalise(document.text) == document.text, said
            assert document.source, f"{document.id}: set source"

    def test_ids_are_stable_and_each_its_own(
        self, reader: Reader, source: str, fetch: FetchBytes, documents: list[Document]
    ) -> None:
        """Reading again finds the same documents: nothing unchanged is embedded twice."""
        ids = [document.id for document in documents]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        again = [item for item in reader.read(source, fetch) if isinstance(item, Document)]
        assert [d.id for d in again] == ids
        assert [d.content_hash() for d in again] == [d.content_hash() for d in documents]

    def test_pages_and_sections_lie_in_the_text(self, documents: list[Document]) -> None:
        """Pages are in ascending order, each with a span inside the text."""
        for document in documents:
            size = len(document.text)
            starts = [page.span.start for page in document.pages]
            assert starts == sorted(starts)
            numbers = [page.number for page in document.pages]
            assert numbers == sorted(set(numbers))
            heads = [section.span.start for section in document.sections]
            assert heads == sorted(heads)
            for span in [p.span for p in document.pages] + [s.span for s in document.sections]:
                assert 0 <= span.start <= span.end <= size
            assert all(section.level >= 1 and section.title for section in document.sections)

    def test_metadata_is_what_filters_can_use(self, documents: list[Document]) -> None:
        """Metadata are scalars and tuples of strings."""
        for document in documents:
            for name, value in document.metadata.items():
                said = f"metadata {name!r}: {value!r} is no text, number, bool or tuple of texts"
                assert isinstance(name, str), said
                if isinstance(value, tuple):
                    assert all(isinstance(part, str) for part in value), said
                else:
                    assert isinstance(value, str | int | float | bool), said

    def test_what_is_missing_is_a_failure_and_no_exception(
        self, reader: Reader, missing: str, fetch: FetchBytes
    ) -> None:
        """A missing source is a failure, or an error that becomes one; the others are read."""
        items = list(catch_failures(reader.read(missing, fetch), missing, reader))
        assert items
        for item in items:
            assert isinstance(item, Failure)
            assert isinstance(item.error, RagwrightError)
            told = f"{item.error}\nyield a Failure with a SourceError in place of this exception"
            assert "correct the reader" not in str(item.error), told
