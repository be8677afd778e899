"""What the methods of a workbench accept, the awaited verbs, and results in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import ragwright as command
from served import written_by
from small_project import QUESTION, MakeProject, ingested

import ragwright
from ragwright import Workbench
from ragwright.core import ConfigError, FilterError, PromptError
from ragwright.retrieve import parse_filter
from ragwright.testing import Reply, ScriptedServer
from ragwright.workbench import AnswerStream


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = ingested(tmp_path_factory.mktemp("asking"), **{"a.md": OIL, **TEXTS})
    with Workbench.open(folder) as opened:
        yield opened


OIL = "# Oil\n\nReplace the <oil> & the filter every year.\n"
TEXTS = {
    "codes.md": "# Warning codes\n\nAPP_w304 means that the pedal sensor is broken.\n",
    "service.md": "# Service plan\n\nThe brake fluid must be changed every two years.\n",
}
TEXT = "must be a text, not"
WHOLE = "k must be a whole number from 1, not"


@pytest.mark.parametrize(
    ("ask", "wrong", "said"),
    [
        (lambda b, w: b.ask(w), (None, 3, ["brake"], b"brake"), TEXT),
        (lambda b, w: b.retrieve(w), (None, 3, ["brake"], b"brake"), TEXT),
        (lambda b, w: asyncio.run(b.aask(w)), (None, 3, ["brake"], b"brake"), TEXT),
        (lambda b, w: asyncio.run(b.aretrieve(w)), (None, 3, ["brake"], b"brake"), TEXT),
        (lambda b, w: b.ask(QUESTION, w), (3, ["engineer"], b"engineer"), f"the persona {TEXT}"),
        (lambda b, w: b.retrieve("a", k=w), ("3", 2.5, 0, -1, True, [3]), WHOLE),
        (lambda b, w: b.retrieve("a", filters=w), ([3],), "a filter must be a text, not 3"),
    ],
    ids=["ask", "retrieve", "aask", "aretrieve", "persona", "k", "filter"],
)
def test_what_is_no_text_or_number_is_refused_in_words(
    bench: Workbench, ask: Callable[[Workbench, Any], object], wrong: tuple[Any, ...], said: str
) -> None:
    for value in wrong:
        with pytest.raises(ConfigError, match=said):
            ask(bench, value)


def test_a_search_takes_filters_as_the_command_does_and_its_hits_are_a_sequence(
    bench: Workbench,
) -> None:
    query = "What does the code mean, and when is the brake fluid changed?"
    found = bench.retrieve(query, 5)
    assert {Path(hit.source).name for hit in found} == {"codes.md", "service.md"}
    assert [hit.rank for hit in found] == [1, 2]
    assert len(found) == len(found.hits) == 2
    assert (found[0], found[-1]) == (found.hits[0], found.hits[-1])
    assert found[:1] == found.hits[:1]
    assert found.hits[1] in found
    assert len(bench.retrieve(query, k=np.int64(1))) == 1  # type: ignore[arg-type]
    for filters in ("title=Warning codes", ["title=Warning codes"], parse_filter("title!=x")):
        found = bench.retrieve(query, 5, filters=filters)
        both = filters == parse_filter("title!=x")
        assert {Path(hit.source).name for hit in found} == (
            {"codes.md", "service.md"} if both else {"codes.md"}
        )
    nothing = bench.retrieve("zzzyqx")
    assert list(nothing) == []
    assert nothing  # a search that found nothing is a result too
    with pytest.raises(FilterError):
        bench.retrieve(query, filters="nonsense")


# -- awaited verbs -------------------------------------------------------------------------------


def test_async_verbs_give_what_the_others_give(bench: Workbench) -> None:
    """Also within a running event loop; an offline answer is streamed in one piece."""

    async def inside() -> None:
        answer = await bench.aask(QUESTION, "engineer")
        assert answer.text == bench.ask(QUESTION, "engineer").text
        [flown] = await bench.project.runner.arun(bench.ask_flow(QUESTION, ["engineer"]))
        assert flown.text == answer.text
        found = await bench.aretrieve(QUESTION, 3)
        expected = [hit.chunk_id for hit in bench.retrieve(QUESTION, 3)]
        assert [hit.chunk_id for hit in found] == expected
        both = await bench.aask_all(QUESTION, ["engineer", "marketing"])
        assert [one.persona for one in both] == ["engineer", "marketing"]
        with pytest.raises(PromptError, match="nobody"):
            _ = [piece async for piece in bench.astream(QUESTION, "nobody")]
        stream = bench.astream(QUESTION)
        assert len([piece async for piece in stream]) == 1
        assert stream.answer is not None
        assert stream.answer.citations

    asyncio.run(inside())


@pytest.mark.slow
def test_an_answer_is_streamed_in_pieces_after_its_context(tmp_path: Path) -> None:
    """A reader that leaves early ends the call."""
    with ScriptedServer(Reply("It is changed every two years [1]. " * 40, pace=0.02)) as model:
        folder = ingested(tmp_path, written_by(model))

        async def left(bench: Workbench) -> AnswerStream:
            stream = bench.astream(QUESTION)
            pieces = stream.__aiter__()
            await anext(pieces)
            await pieces.aclose()
            return stream

        async def read(bench: Workbench) -> None:
            stream, pieces = bench.astream(QUESTION), list[str]()
            async for piece in stream:
                assert stream.context, "the passages come before the first piece"
                assert stream.answer is None
                pieces.append(piece)
            assert len(pieces) > 1
            assert stream.answer is not None
            assert stream.context is not None
            assert "".join(pieces) == stream.answer.text
            assert stream.answer.citations[0].document_id == stream.context[0].document_id

        with Workbench.open(folder) as bench:
            assert asyncio.run(left(bench)).answer is None
            assert bench.project.replies.statistics() == [], "a cut stream is not stored"
            model.play("It is changed every two years [1].")
            asyncio.run(read(bench))


# -- notebooks -------------------------------------------------------------------------------------

ROWS: list[dict[str, Any]] = [
    {
        "question": "Who <b>?",
        "answer": "<script>alert(1)</script>",
        "ground_truth": "a mechanic",
        "contexts": ["By a mechanic."],
    },
    {"question": "When?", "answer": "now " * 500, "ground_truth": "now"},
]


def test_an_evaluation_is_short_as_text_escaped_as_html_and_a_data_frame() -> None:
    found = ragwright.evaluate(ROWS, "TokenF1, KPrecision")
    assert repr(found).startswith("<Evaluation 'rows': 2 rows; TokenF1 0.")
    assert len(repr(found)) < 120
    html = found._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "Who &lt;b&gt;?" in html
    assert len(html) < 3000
    frame = found.to_pandas()
    assert list(frame["user_input"]) == ["Who <b>?", "When?"]
    assert frame["TokenF1"].notna().all()
    assert frame["KPrecision state"][1] == "not_applicable"
    assert frame["retrieved_contexts"][0] == ["By a mechanic."]
    again = ragwright.evaluate(frame, "TokenF1")  # a frame of results is rows again
    assert again["TokenF1"].mean == pytest.approx(frame["TokenF1"].mean())


def test_hits_and_answers_are_short_as_text_and_escaped_as_html(bench: Workbench) -> None:
    found, answer = bench.retrieve("oil", k=1), bench.ask("When is the oil replaced?")
    assert repr(found).startswith("<Retrieved 'oil': 1 hit, the first <Hit 1 ")
    assert "Replace the &lt;oil&gt; &amp; the filter" in found._repr_html_()
    assert repr(answer).startswith("<Answer ")
    assert "<oil>" not in answer._repr_html_()
    assert "a.md" in answer._repr_html_()
    assert list(found.to_pandas()["rank"]) == [1]


def test_doctor_says_that_each_worker_loads_a_local_model_for_itself(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("embed: {model: 'st:some/model'}\n")
    said = command(folder, "doctor", code=1).stdout
    assert "each worker of `ragwright serve` loads st:some/model for itself" in said
