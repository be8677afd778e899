"""Perplexity of a response under a model."""

from __future__ import annotations

import math

from ..core import MeasureError, Row, Score
from ..flow import Flow, complete
from ._measure import Measure
from ._setup import MeasureSetup


def perplexity(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """The exponential of the mean negative log-probability of the response's tokens, 1 or more.

    The server echoes the response as a prompt with its log-probabilities and writes nothing. The
    first token has no probability, since nothing precedes it.

    Raises:
        MeasureError: The server does not echo the prompt, or gives impossible numbers.
    """
    reply = yield from complete(
        setup.completer,
        row.response_text,
        {"echo": True, "max_tokens": 0, "temperature": 0},
        logprobs=0,
    )
    if not reply.text.startswith(row.response_text) or reply.dropped:
        raise MeasureError(
            f"{setup.completer} does not echo a prompt with its log-probabilities",
            hint="Perplexity needs a /completions server with `echo` and `logprobs`",
        )
    # A server that must write something adds tokens: only those of the response count.
    written = len(reply.text) - len(row.response_text)
    tokens = list(reply.tokens)
    while tokens and written > 0:
        written -= len(tokens.pop()[0])
    if not tokens:
        return Score(str(measure), "not_applicable", reason="the response is a single token")
    scores = [score for _, score in tokens]
    if not all(math.isfinite(score) and score <= 0 for score in scores):
        raise MeasureError(
            f"{setup.completer} sent invalid log-probabilities",
            hint="each must be a finite number not above 0",
        )
    return Score(str(measure), "scored", math.exp(-math.fsum(scores) / len(scores)))
