"""Perplexity with scripted log-probabilities, over HTTP too."""

from __future__ import annotations

import math
import re
import zlib

import pytest
from measure_fakes import Told, run

from ragwright.core import Row, Score
from ragwright.flow import CompleteReply, RetryPolicy, Runner
from ragwright.measure import MeasureSetup, parse_measures, score_row
from ragwright.models import Models, model_handlers
from ragwright.testing import Reply, ScriptedServer

PERPLEXITY = parse_measures("Perplexity")
ROW = Row("r", "?", response="one two three")


def score(reply: CompleteReply) -> Score:
    told = Told(reply)
    (found,) = run(score_row(ROW, PERPLEXITY, MeasureSetup(completer="c")), told)
    assert told.seen[0].prompt == ROW.response_text
    assert ("echo", True) in told.seen[0].params
    return found


def test_worked_by_hand() -> None:
    found = score(CompleteReply(ROW.response_text, tokens=((" two", -1.0), (" three", -3.0))))
    assert found.value == pytest.approx(math.exp(2.0))


def test_tokens_written_beyond_the_response_do_not_count() -> None:
    tokens = ((" two", -1.0), (" three", -3.0), (" and", -9.0), (" four", -9.0))
    found = score(CompleteReply(ROW.response_text + " and four", tokens=tokens))
    assert found.value == pytest.approx(math.exp(2.0))


@pytest.mark.parametrize(
    ("reply", "state"),
    [
        (CompleteReply("something else", tokens=(("x", -1.0),)), "errored"),
        (CompleteReply(ROW.response_text, tokens=(("x", -1.0),), dropped=("echo",)), "errored"),
        (CompleteReply(ROW.response_text), "not_applicable"),
        (CompleteReply(ROW.response_text, tokens=(("x", 0.5),)), "errored"),
        (CompleteReply(ROW.response_text, tokens=(("x", -math.inf),)), "errored"),
    ],
)
def test_unusable_replies_have_a_state_and_a_reason(reply: CompleteReply, state: str) -> None:
    found = score(reply)
    assert found.state == state
    assert found.reason


def test_over_http() -> None:
    with ScriptedServer([Reply("")]) as server, Runner(model_handlers(Models())) as runner:
        setup = MeasureSetup(completer=f"{server.url}#scripted")
        (found,) = runner.run(score_row(ROW, PERPLEXITY, setup))
    tokens = re.findall(r"\s*\S+", ROW.response_text)
    scores = [-(zlib.crc32(token.encode()) % 1000) / 250 for token in tokens][1:]
    assert found.value == pytest.approx(math.exp(-sum(scores) / 2))


def test_a_server_that_fails_is_errored() -> None:
    fast = RetryPolicy(attempts=1)
    with (
        ScriptedServer([Reply(status=500, error="down")]) as server,
        Runner(model_handlers(Models()), retry=fast) as runner,
    ):
        setup = MeasureSetup(completer=f"{server.url}#scripted")
        (found,) = runner.run(score_row(ROW, PERPLEXITY, setup))
    assert found.state == "errored"
