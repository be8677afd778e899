"""Notices through a real SMTP server and a real webhook; secrets stay in the environment."""

from __future__ import annotations

import json
import logging
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd import controller
from children import started
from job_project import FakeClock, jobs_of, project_with, ran, run_alone, run_job, runner_in
from waiting import free_port, wait_until
from web_hook import Hook, web_hook

from ragwright.core import StoreError
from ragwright.jobs import (
    JobRun,
    JobServer,
    Notices,
    NoticeSent,
    NoticeText,
    RunListener,
    hide_secrets,
    job_faults,
    job_findings,
    mask_address,
)
from ragwright.project import ProjectFolder

TEXT = NoticeText("It failed — really", "first line\n  <second> & line", False)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with web_hook() as running:
        yield running


class Mails:
    """A mail server, and the messages that it took."""

    def __init__(self) -> None:
        self.taken: list[EmailMessage] = []
        self.port = free_port()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.taken.append(message)
        return "250 taken"

    @property
    def address(self) -> str:
        return f"mailto://127.0.0.1:{self.port}?from=jobs@example.org&to=team@example.org"


@pytest.fixture
def mails() -> Iterator[Mails]:
    made = Mails()
    server = controller.Controller(made, hostname="127.0.0.1", port=made.port)
    server.start()
    yield made
    server.stop()


@pytest.mark.slow
def test_a_mail_arrives_as_it_was_written_and_a_hostile_name_adds_no_header(mails: Mails) -> None:
    title = "evil\r\nBcc: victim@example.org\r\n\r\n\x1b[31m\udcff" + "x" * 3000
    hostile = NoticeText(title, "a folder \udcff\x1b]0;owned\x07\n.\nlast", False)
    assert [Notices({}).send(mails.address, text).sent for text in (TEXT, hostile)] == [True] * 2
    mail, evil = mails.taken
    assert (mail["Subject"], mail["To"]) == (TEXT.subject, "team@example.org")
    assert mail.get_content_type() == "text/plain"
    assert mail.get_content().replace("\r\n", "\n").strip() == TEXT.body
    assert evil["bcc"] is None
    assert evil["subject"].startswith("evil Bcc: victim@example.org")
    assert len(evil["subject"]) <= 200
    assert evil.get_content().split() == ["a", "folder", "]0;owned", ".", "last"]


def test_nothing_but_the_notice_is_sent_and_no_address_of_somebody_else_stands_in_it(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[Any] = []
    connect = socket.socket.connect

    def told(self: socket.socket, address: Any) -> None:
        reached.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", told)
    assert Notices({"WEBHOOK": hook.address}).send("${WEBHOOK}", TEXT).sent
    (body,) = hook.posted
    assert (body["title"], body["message"], body["type"]) == (TEXT.subject, TEXT.body, "failure")
    assert reached == [("127.0.0.1", hook.port)]
    assert "apprise" not in json.dumps(hook.posted).lower()


def test_a_failed_job_tells_what_a_person_needs_to_know(tmp_path: Path, mails: Mails) -> None:
    jobs = (
        "  a:\n    steps: [say one, fail 7]\n    schedule: '@daily'\n    timezone: Europe/Paris\n"
        f"    notify: {{failure: ['{mails.address}']}}\n"
    )
    run = ran(tmp_path, jobs, clock=FakeClock(), notices=Notices())
    assert [notice.sent for notice in run.notices] == [True]
    (mail,) = mails.taken
    assert mail["Subject"] == f"ragwright: a failed ({tmp_path.name})"
    body = mail.get_content().replace("\r\n", "\n")
    assert "result   failed: step 2 (fail 7) ended with exit code 7" in body
    assert f"project  {tmp_path.name} ({tmp_path})" in body
    assert "started  Fri 2027-01-15 09:00:00 CET" in body
    assert "took     0.0 s" in body
    assert "  1. say one: succeeded" in body
    assert "last lines of step 2\n  this went wrong" in body
    assert "next run Sat 2027-01-16 00:00:00 CET" in body


def test_a_notice_that_cannot_be_sent_is_written_down_and_fails_nothing(
    tmp_path: Path, hook: Hook
) -> None:
    hook.status = 500
    closed = f"mailto://127.0.0.1:{free_port()}?from=a@example.org&to=b@example.org"
    addresses = f"['{hook.address}', '{closed}', '${{NOT_SET}}', 'nosuch://x']"
    notify = f"{{failure: [json://127.0.0.1:9], success: {addresses}}}"
    jobs = f"  a: {{steps: [say x], retries: 3, notify: {notify}}}\n"
    heard: list[str] = []
    run = ran(tmp_path, jobs, notices=Notices({}), hears=[heard.append])
    assert hook.posted[0]["type"] == "success"
    assert (run.state, run.attempts, run.code) == ("succeeded", 1, 0)
    assert [notice.sent for notice in run.notices] == [False] * 4
    said = [notice.reason for notice in run.notices]
    assert "500" in said[0]
    assert said[1]
    assert said[2] == "the environment variable NOT_SET is not set"
    assert said[3] == "Apprise does not know this address"
    assert sum("was not sent" in line for line in heard) == 4
    assert len(hook.posted) == 1


def test_secrets_are_filled_in_and_found_nowhere(
    tmp_path: Path, hook: Hook, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    hook.status = 403
    secrets = {"TOKEN": "s3cr3t/with@signs", "HOOK": f"{hook.address}/hidden-token-77"}
    jobs = (
        "  a:\n    steps: ['say the token is s3cr3t/with@signs']\n    notify:\n"
        f"      success: ['{hook.address}/${{TOKEN}}', '${{HOOK}}', 'nosuch://${{TOKEN}}']\n"
    )
    heard: list[str] = []
    run = ran(tmp_path, jobs, notices=Notices(secrets), hears=[heard.append])
    assert len(hook.paths) == 2  # they were sent
    assert hook.paths[1] == "/hidden-token-77"
    printed = capfd.readouterr()
    path = tmp_path / ".ragwright" / "data" / "ledger.sqlite"
    connection = sqlite3.connect(path)
    stored = "\n".join(connection.iterdump())
    connection.close()
    everything = "\n".join(
        [stored.replace(run.steps[0].line, ""), repr(run.notices), *heard, caplog.text, *printed]
    )
    assert run.steps[0].output == "the token is ${TOKEN}"
    for secret in ("s3cr3t", "hidden-token"):
        assert secret not in everything


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("${WEBHOOK}", "${WEBHOOK}"),
        ("mailto://u:${PW}@mail.example.org:25?to=a@b.org", "mailto://mail.example.org:25"),
        ("slack://TokenA/TokenB/TokenC", "slack://…"),
        ("json://host/secret/path?x=y", "json://host"),
        ("nonsense", "…"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(address: str, shown: str) -> None:
    assert mask_address(address) == shown


def test_a_secret_is_found_in_every_spelling() -> None:
    text = "a p@ss/word, p%40ss%2Fword, p@ss%2fword and P@SS/WORD"
    cleaned = hide_secrets(text, ["json://h/${PW}"], {"PW": "p@ss/word"})
    assert cleaned == "a ${PW}, ${PW}, ${PW} and ${PW}"
    assert hide_secrets("an ox", ["json://h/${PW}"], {"PW": "ox"}) == "an ox"


def test_faults_of_addresses_and_schedules_are_named_with_their_line(tmp_path: Path) -> None:
    project = project_with(
        tmp_path,
        "  a:\n    steps:\n      - say\n      - nosuch\n    schedule: 61 7 * * *\n    notify:\n"
        "      failure:\n        - json://localhost\n        - nosuch://x\n        - ${UNSET}\n",
    )
    job = jobs_of(project)["a"]
    found = list(job_faults(job, lambda words: "what" if words[0] == "nosuch" else "", Notices({})))
    assert [error.where for error in found] == [
        "ragwright.yaml:7",
        "ragwright.yaml:6",
        "ragwright.yaml:11",
    ]
    assert all(error.hint for error in found)


def test_doctor_tells_next_runs_and_unset_variables(tmp_path: Path, hook: Hook) -> None:
    project = project_with(
        tmp_path,
        "  a:\n    steps: [say]\n    schedule: '@daily'\n    notify:\n      failure:\n"
        f"        - {hook.address}\n        - ${{UNSET}}\n"
        "  b: {steps: [say, say]}\n",
    )
    found = list(job_findings(jobs_of(project), lambda _: ""))
    assert [state for state, _, _ in found] == ["ok", "ok", "fault", "ok"]
    assert "next run" in found[0][1]
    assert "UNSET is not set" in found[2][1]
    assert found[3][1] == "b: 2 steps, by hand only"
    assert hook.posted == []


def test_a_run_that_nobody_was_there_for_is_told_of(tmp_path: Path, hook: Hook) -> None:
    project = project_with(
        tmp_path,
        "  a:\n    steps: [say]\n    schedule: '@yearly'\n"
        f"    notify: {{failure: ['{hook.address}']}}\n",
    )
    jobs, clock = jobs_of(project), FakeClock(1_800_000_000.0 + 1800)  # half past eight
    runner = runner_in(project, clock, Notices())
    runner.history.begin(JobRun("a", "schedule", clock.at - 5400, clock.at - 5400))
    server = JobServer(runner, jobs, lambda _: None)
    server.tick()
    server.signal()
    server.serve()  # which ends after the notices
    assert [post["title"].split()[2] for post in hook.posted] == ["cut"]
    assert [(run.state, len(run.notices)) for run in runner.runs()] == [("cut off", 1)]


@pytest.mark.slow
def test_what_a_killed_process_did_not_send_is_sent_once_by_the_next(
    tmp_path: Path, hook: Hook
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes the connection, says nothing
        hanging = f"json://127.0.0.1:{silent.getsockname()[1]}"
        project = project_with(
            tmp_path,
            f"  a: {{steps: [fail 7], notify: {{failure: ['{hanging}', '{hook.address}']}}}}\n",
        )
        other = started(run_alone, tmp_path)
        silent.settimeout(30)
        held, _ = silent.accept()
        other.kill()
        other.join()
        held.close()
    job, runner = jobs_of(project)["a"], runner_in(project, notices=Notices())
    (run,) = runner.runs()
    assert {notice.reason for notice in run.notices} == {"its process ended before it was sent"}
    assert hook.posted == []
    for _ in range(2):
        for left in runner.settle(job):
            assert left.state == "failed"
            runner.tell(job, left, RunListener())
    (run,) = runner.runs()
    assert [notice.sent for notice in run.notices] == [False, True]
    assert len(hook.posted) == 1
    assert "failed" in hook.posted[0]["title"]


def test_a_history_that_cannot_be_written_is_told_of(tmp_path: Path, hook: Hook) -> None:
    jobs = f"  a: {{steps: [say x], notify: {{failure: ['{hook.address}']}}}}\n"
    runner = runner_in(project_with(tmp_path, jobs), notices=Notices())
    path = tmp_path / ".ragwright" / "data" / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON job_runs BEGIN "
            "SELECT RAISE(FAIL, 'database or disk is full'); END"
        )
        connection.commit()
    job = jobs_of(ProjectFolder(tmp_path))["a"]
    with pytest.raises(StoreError):
        run_job(runner, job)
    (post,) = hook.posted
    assert "a failed" in post["title"]
    assert "disk is full" in post["message"]
    assert runner.take(job, "by hand") is not None


def test_a_notice_that_hangs_does_not_hold_up_the_next_run(tmp_path: Path) -> None:
    sending, go = threading.Event(), threading.Event()

    class Hanging(Notices):
        def send(self, address: str, text: NoticeText) -> NoticeSent:
            sending.set()
            go.wait(30)
            return super().send(address, text)

    jobs = "  a: {steps: [say x], schedule: '* * * * *', notify: {success: ['${UNSET}']}}\n"
    project, clock = project_with(tmp_path, jobs), FakeClock()
    runner = runner_in(project, clock, Hanging({}))
    server = JobServer(runner, jobs_of(project), lambda _: None)
    server.tick()
    clock.at += 60
    server.tick()
    assert sending.wait(30)
    clock.at += 60
    server.tick()
    wait_until(lambda: [run.state for run in runner.runs()] == ["succeeded"] * 2)
    go.set()
    server.signal()
    server.serve()
    assert [len(run.notices) for run in runner.runs()] == [1, 1]
