"""The section `jobs` of a project file, and what is refused in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_project import jobs_of, project_with

from ragwright.core import ConfigError

FULL = """\
  refresh:
    steps: ["records refresh"]
    schedule: "30 7 * * mon-fri"
    timezone: Europe/Paris
    retries: 2
    retry_wait: 60
    timeout: 3600
    notify: {failure: ["mailto://u:${PASSWORD}@example.org", "${WEBHOOK}"], success: ["${WEBHOOK}"]}
  generate:
    flags: {refresh: false}
    steps:
      - {run: records refresh, when: refresh, timeout: 5}
      - {run: ragwright outputs, when: not refresh}
      - draft --client "Jane Doe" -n 5
"""


def test_jobs_are_read_as_they_are_written(tmp_path: Path) -> None:
    jobs = jobs_of(project_with(tmp_path, FULL))
    refresh, generate = jobs["refresh"].options, jobs["generate"]
    assert (refresh.schedule, refresh.timezone, refresh.retries) == (
        "30 7 * * mon-fri",
        "Europe/Paris",
        2,
    )
    assert len(refresh.notify.addresses) == 2
    first, second, third = generate.options.steps
    assert first.timeout == 5
    assert second.words == ("outputs",)
    assert third.words == ("draft", "--client", "Jane Doe", "-n", "5")
    on, off = generate.flags(["refresh"]), generate.flags(["refresh=false"])
    assert [step.wanted(on) for step in (first, second, third)] == [True, False, True]
    assert [step.wanted(off) for step in (first, second, third)] == [False, True, True]
    assert generate.flags() == {"refresh": False}
    assert generate.where("steps", "1") == "ragwright.yaml:15"


@pytest.mark.parametrize("given", ["refesh", "refresh=maybe"])
def test_a_flag_that_is_none_is_refused(tmp_path: Path, given: str) -> None:
    job = jobs_of(project_with(tmp_path, FULL))["generate"]
    with pytest.raises(ConfigError) as caught:
        job.flags([given])
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("  a: {steps: [x], shedule: '@daily'}\n", 3, "unknown key"),
        ("  a:\n    schedule: '@daily'\n", 3, "has no steps"),
        ("  a:\n    steps:\n      - x\n      - 'draft \"Jane'\n", 6, "cannot be read"),
        ("  a:\n    steps: ['']\n", 4, "is empty"),
        ("  a:\n    steps: [job run b]\n", 4, "cannot be a job"),
        ("  a:\n    steps:\n      - run: x\n        when: fresh\n", 6, "unknown flag in `when`"),
        ("  a:\n    steps: [x]\n    schedule: 7 30\n", 5, "has 2 fields"),
        ("  on:\n    steps: [x]\n", 3, "reads the name of this job as true"),
        (
            "  a:\n    steps: [x]\n    schedule: '@daily'\n    timezone: Europe/Pari\n",
            6,
            "unknown time zone",
        ),
        (
            "  a:\n    steps: [x]\n    schedule: '@daily'\n    timezone: ../etc\n",
            6,
            "unknown time zone",
        ),
        ("  a:\n    steps: [x]\n    notify: {failure: [me]}\n", 5, "not a valid notice address"),
        ("  a:\n    steps: [x]\n    notify:\n      success:\n        - json://${a\n", 7, "${NAME}"),
        ("  a:\n    steps: [x]\n    notify: {failure: ['mailto://u:pw@h']}\n", 5, "a secret"),
        ("  a:\n    steps: [x]\n    notify: {failure: ['json://h?token=abc']}\n", 5, "a secret"),
        ("  a:\n    steps: [x]\n    retries: -1\n", 5, "at least 0"),
        ("  a:\n    steps: [x]\n    timeout: 0\n", 5, "above 0"),
        ("  a b: {steps: [x]}\n", 3, "not a valid job name"),
        ("  a:\n    steps:\n      - {rum: x}\n", 5, "unknown key"),
        ("  - a\n", 2, "must be a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str, line: int, part: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        jobs_of(project_with(tmp_path, text))
    assert part in caught.value.what
    assert caught.value.where == f"ragwright.yaml:{line}"


def test_a_secret_in_the_file_is_not_repeated_in_the_message(tmp_path: Path) -> None:
    text = "  a:\n    steps: [x]\n    notify: {failure: ['mailto://me:hunter22@example.org']}\n"
    with pytest.raises(ConfigError) as caught:
        jobs_of(project_with(tmp_path, text))
    assert "hunter22" not in str(caught.value)
