"""Commands against a small real chat model: calls, tokens and stops, never the quality of a reply.

Run where RAGWRIGHT_REAL_MODEL is set and the model is installed, by
`python -m benchmarks.peers.install model`. Loading it and a dozen replies take minutes of CPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.real_model import Step, Trial, asked, judged, resumed, streamed, talked
from benchmarks.real_server import MissingModelError, RealModel, real_model

pytestmark = [pytest.mark.slow, pytest.mark.needs_model]


@pytest.fixture(scope="module")
def model() -> Iterator[RealModel]:
    if not os.environ.get("RAGWRIGHT_REAL_MODEL"):
        pytest.skip("RAGWRIGHT_REAL_MODEL is not set: a small chat model takes minutes of CPU")
    try:
        running = real_model()
        with running as found:
            yield found
    except MissingModelError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def trial(model: RealModel, tmp_path: Path) -> Trial:
    made = Trial(tmp_path / "project", model, questions=2)
    made.run("ingest")
    return made


def sent_as_needed(step: Step) -> bool:
    """As many calls as the step needs, none of them twice, and the server's count of tokens."""
    assert step.fewest <= step.calls <= step.most, step
    assert step.repeats == 1, step
    assert step.counted in (None, step.tokens), step
    return True


def test_answers_whole_and_streamed_and_a_stream_that_is_stopped(trial: Trial) -> None:
    asked(trial)
    streamed(trial)
    whole, pieces, stopped, again = trial.steps
    assert all(map(sent_as_needed, (whole, pieces, stopped)))
    assert again.calls == again.most
    assert int(pieces.note.split()[0]) > 1


def test_a_second_turn_is_condensed_first(trial: Trial) -> None:
    talked(trial)
    assert sent_as_needed(trial.steps[0])


def test_resume_pays_only_what_is_missing_and_a_poor_judge_is_counted(trial: Trial) -> None:
    resumed(trial)
    judged(trial, ("Faithfulness", 1))
    answers, judgments = trial.steps
    assert answers.fewest <= answers.calls <= answers.most
    assert answers.note == "2 of 2 rows"
    states = trial.judged["Faithfulness"]
    assert sum(states.values()) == 2
    # A second reply is asked for where the first cannot be used, and never a third.
    assert 2 + states.get("judge_invalid", 0) <= judgments.calls <= 4
