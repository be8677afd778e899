"""The conformance suites of measures, judges, stages, commands and steps."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ..core import Filter, Row, Score
from ..flow import Runner
from ..measure import MeasureSetup, judge, load_shipped_rubrics, parse_measure, score_row
from ..retrieve import Retrieved, RetrieveOptions, Stage, retrieve
from ._reranker_suite import index_corpus

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
        assert str(parse_measure(self.measure)) == self.measure
        assert parse_measure(self.measure).definition.summary.strip()

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
            flow = judge(row, load_shipped_rubrics()[rubric], MeasureSetup(by=self.judge))
            return runner.run(flow)

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
            assert score.state in ("scored", "judge_invalid")
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
        assert self.make().name

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
