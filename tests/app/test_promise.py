"""Making a promise in a project: what is certified, kept, suspended, refused and withdrawn."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from certified_project import certified_project, certified_rows, things, write_rows
from command_line import ragwright
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, MeasureError, StoreError, TestsetError
from ragwright.experiment import (
    EvaluationOptions,
    PromiseOptions,
    certificate_in_force,
    certificates,
    repeat_request,
    withdraw_promise,
)
from ragwright.flow import Message
from ragwright.ledger import FileLock
from ragwright.retrieve import parse_filter
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.testsets import Openings, load_testset
from ragwright.workbench import AskOptions

KNOWN = f"How many watts does the {things()[0]} need?"
UNKNOWN = "Who designed the Quartz kettle?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return certified_project(MakeProject(tmp_path))


@pytest.fixture
def promised(tmp_path: Path) -> Path:
    """The project after the default promise was made."""
    return certified_project(MakeProject(tmp_path), promised=True)


def promise_in(folder: Path, how: PromiseOptions | None = None, answer: str = "") -> str:
    """Make a promise and return its line."""
    with Workbench.open(folder) as bench:
        promised = bench.promise(how or PromiseOptions("testsets/set.jsonl"))
    assert promised.certificate is not None, promised.reason
    return promised.certificate.line


def test_a_promise_is_certified_written_and_kept_by_every_door(folder: Path) -> None:
    before = ragwright(folder, "ask", UNKNOWN, "--json", "--set", "answer.threshold=0").stdout
    assert json.loads(before)["answers"][0]["abstained"] is False
    done = ragwright(folder, "promise", "--testset", "testsets/set.jsonl", "--json")
    document = json.loads(done.stdout)
    certificate = document["certificate"]
    assert document["certified"] is True
    assert certificate["answered"] >= 59
    assert certificate["errors"] == 0
    assert certificate["bound"] <= 0.05
    assert 0.5 < certificate["coverage"] < 0.8, "questions about unknown things are withheld"
    stored = (folder / "promises" / "0001.json").read_text("utf-8")
    assert str(folder) not in stored, "certificates are shared: no path of this machine"
    share = round(100 * certificate["coverage"])
    assert document["line"] == (
        f"At most 5 % of answers wrong, certified on 121 held-out questions on "
        f"{certificate['date']}; answers {share} %"
    )
    right, withheld = (
        json.loads(ragwright(folder, "ask", question, "--json").stdout)["answers"][0]
        for question in (KNOWN, UNKNOWN)
    )
    assert "100 watts" in right["text"]
    assert right["promise"]["line"] == document["line"]
    assert right["promise"]["holds"] is True
    assert right["promise"]["score"] >= certificate["threshold"]
    assert withheld["abstained"] is True
    assert withheld["citations"] == []
    assert withheld["snippets"] == []
    assert any(note.startswith("withheld: the answer has ") for note in withheld["notes"])
    assert document["line"] in ragwright(folder, "ask", KNOWN).stdout
    with Workbench.open(folder) as bench:
        evaluation, _ = bench.evaluate(
            "testsets/set.jsonl", "TokenF1", EvaluationOptions(answers=True)
        )
    silent = [r for r in evaluation.results if r.row and r.row.metadata["abstained"]]
    assert len(silent) >= 40, "an evaluation measures what is served"
    assert document["line"] in evaluation.notes
    ragwright(folder, "report", "-o", "report.html")
    assert document["line"] in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("score", ["hit", "margin", "snippet", "KPrecision(content+bigrams)"])
def test_a_served_answer_scores_as_its_stored_row_did(folder: Path, score: str) -> None:
    """What is answered under the guard is what was counted without it."""
    how = PromiseOptions("testsets/set.jsonl", risk=0.5, scores=(score,))
    with Workbench.open(folder) as bench:
        certificate = bench.promise(how).certificate
        assert certificate is not None
        log = Openings(folder / "testsets" / "openings.jsonl", "test", dry_run=True)
        confirm = load_testset(
            str(folder / "testsets" / "set.jsonl"), split="confirm", openings=log
        )
        evaluation, _ = bench.evaluate(confirm, "TokenF1", EvaluationOptions(answers=True))
    given = [r for r in evaluation.results if r.row and not r.row.metadata["abstained"]]
    assert len(given) == certificate.answered <= certificate.asked


def test_the_confirm_split_is_opened_once_for_an_equal_promise(promised: Path) -> None:
    log = Openings.of(promised / "testsets" / "openings.jsonl")
    with Workbench.open(promised) as bench:
        [first] = certificates(bench.project.folder)
        repeated = bench.promise(PromiseOptions("testsets/set.jsonl"))
    assert repeated.again
    assert repeated.certificate is not None
    assert repeated.certificate.line == first.line
    assert Openings.of(promised / "testsets" / "openings.jsonl") == log
    assert [opening.purpose for opening in log] == ["promise: at most 5 % of answers wrong"]
    assert len(certificates_in(promised)) == 1


def certificates_in(folder: Path) -> list[str]:
    with Workbench.open(folder) as bench:
        return [certificate.number for certificate in certificates(bench.project.folder)]


def test_every_further_opening_halves_the_level(promised: Path) -> None:
    promise_in(promised, PromiseOptions("testsets/set.jsonl", risk=0.1))
    with Workbench.open(promised) as bench:
        first, second = certificates(bench.project.folder)
        in_force = certificate_in_force(bench.project.folder)
    assert (first.opening, second.opening) == (1, 2)
    assert first.alpha == pytest.approx(0.05)
    assert second.alpha == pytest.approx(0.025)
    assert any("opened once before" in note for note in second.notes)
    assert in_force is not None
    assert in_force.number == second.number == "0002"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("documents", "the documents changed"),
        ("settings", "settings changed (retrieve)"),
        ("model", "the model changed"),
        ("prompt", "the prompt changed"),
    ],
)
def test_a_change_suspends_it_and_again_renews_it(promised: Path, change: str, reason: str) -> None:
    file = promised / "ragwright.yaml"
    if change == "documents":
        (promised / "docs" / "new.md").write_text("# New\n\nThe saw is blue.\n", "utf-8")
        ragwright(promised, "ingest", "--quiet")
    elif change == "settings":
        file.write_text(file.read_text("utf-8") + "retrieve: {top_k: 3}\n", "utf-8")
    elif change == "prompt":
        file.write_text(file.read_text("utf-8") + "prompt: {company: Acme}\n", "utf-8")
    else:
        with ScriptedServer("100 watts [1].") as server:
            override = f"answer.model={server.url}#m"
            words = ("ask", KNOWN, "--json", "--set", override)
            [answer] = json.loads(ragwright(promised, *words).stdout)["answers"]
        assert reason in answer["promise"]["line"]
        return
    ask: tuple[str, ...] = ("ask", UNKNOWN, "--json", "--set", "answer.threshold=0")
    if change == "settings":  # else answer.threshold is another change
        file.write_text(file.read_text("utf-8") + "answer: {threshold: 0}\n", "utf-8")
        ask = ask[:3]
    [answer] = json.loads(ragwright(promised, *ask).stdout)["answers"]
    assert answer["promise"]["line"] == (
        f"The promise of at most 5 % of answers wrong is suspended: {reason}; "
        "run `ragwright promise --again`"
    )
    assert answer["promise"]["holds"] is False
    assert answer["promise"]["score"] is None
    assert not any(note.startswith("withheld") for note in answer["notes"])
    assert not answer["abstained"], "a suspended promise withholds nothing"
    status = ragwright(promised, "promise", "--status", code=100)
    assert f"suspended: {reason}" in status.stdout
    ragwright(promised, "promise", "--again", "--quiet")
    [answer] = json.loads(ragwright(promised, "ask", KNOWN, "--json").stdout)["answers"]
    assert answer["promise"]["holds"] is True
    assert answer["promise"]["certificate"] == "0002"


def test_what_no_certified_question_was_like_is_not_covered(promised: Path) -> None:
    turns = (Message("user", KNOWN), Message("assistant", "100 watts [1]."))
    with Workbench.open(promised) as bench:
        follow_up = bench.ask_all(KNOWN, [""], AskOptions(history=turns))[0].promise
        narrow = AskOptions(filters=(parse_filter("source!=docs/none.md"),))
        filtered = bench.ask_all(KNOWN, [""], narrow)[0].promise
        persona = bench.ask(KNOWN, "engineer").promise
    assert filtered is not None
    assert filtered.line.endswith("does not cover questions with filters of their own")
    assert follow_up is not None
    assert follow_up.line.endswith("does not cover follow-up questions")
    assert persona is not None
    assert "does not cover answers for the persona 'engineer'" in persona.line


def test_the_chance_of_passing_is_said_before_the_split_is_opened_and_kept(folder: Path) -> None:
    done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--json")
    document = json.loads(done.stdout)
    certificate = document["certificate"]
    assert document["chance"] == certificate["chance"] > 0.5
    assert 0 < certificate["luck"] < 0.05
    assert f"chance of passing: {certificate['chance']:.0%}" in done.stderr
    assert certificate["unanswerable"] == 40
    shown = ragwright(folder, "promise", "--status").stdout
    assert f"chance {certificate['luck']:.1%}" in shown


def test_a_dry_run_says_the_chance_and_opens_nothing(folder: Path) -> None:
    done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--dry-run", "--json")
    assert json.loads(done.stdout)["calls"]["high"] == 0
    assert not (folder / "testsets" / "openings.jsonl").exists()
    document = json.loads(ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--json").stdout)
    assert f"chance of passing: {document['chance']:.0%}, estimated" in done.stderr
    model = {"answer": {"model": "http://127.0.0.1:9/v1#none"}, "sources": ["docs"]}
    (folder / "ragwright.yaml").write_text(json.dumps(model))
    done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--dry-run")
    assert "chance of passing: known once the tune split is answered" in done.stderr


def test_a_pass_that_would_probably_be_luck_is_not_tried(folder: Path) -> None:
    """6 of 81 answers wrong: 5 % may be passed, but only by chance."""
    rows = certified_rows("tune", known=81, unknown=0)
    confirm = certified_rows("confirm", known=81, unknown=0)
    for number in range(0, 81, 20):
        rows[number]["reference"] = "a purple elephant"
    write_rows(folder, rows + confirm)
    scores = ("--scores", "KPrecision(content+bigrams)")  # the same for all of them
    command = ("promise", "-t", "testsets/set.jsonl", "--risk", "0.1", *scores)
    done = ragwright(folder, *command, "--json", code=100)
    document = json.loads(done.stdout)
    assert document["reason"].startswith("if this passes it is probably luck (chance of passing ")
    assert document["reason"] in ragwright(folder, *command, "--dry-run").stderr
    assert 0.05 < document["chance"] < 0.5
    assert document["needed"] > 81
    assert not (folder / "testsets" / "openings.jsonl").exists()


def test_a_promise_without_unanswerable_questions_says_so(folder: Path) -> None:
    rows = certified_rows("tune", known=81, unknown=0)
    write_rows(folder, rows + certified_rows("confirm", known=81, unknown=0))
    line = promise_in(folder, PromiseOptions("testsets/set.jsonl"))
    assert "certified on 81 held-out questions, none of them unanswerable, on 20" in line


def test_a_courtesy_gets_its_reply(promised: Path) -> None:
    """Nothing is asked, so that nothing can be wrong or withheld."""
    with Workbench.open(promised) as bench:
        answer = bench.ask("Thanks!")
    assert answer.route == "none"
    assert answer.promise is None
    assert not any(note.startswith("withheld") for note in answer.notes)


def test_studies_measure_the_settings_themselves(promised: Path) -> None:
    """A trial has other settings; the threshold was not chosen for them."""
    with Workbench.open(promised) as bench:
        assert bench.project.plan().guard is not None
        variant = bench.project.variant(bench.project.settings)
        assert variant.plan().guard is None


def test_withdrawing_keeps_the_certificates(promised: Path) -> None:
    assert "withdrawn" in ragwright(promised, "promise", "--withdraw").stdout
    assert "no promise" in ragwright(promised, "promise", "--withdraw").stdout
    [answer] = json.loads(ragwright(promised, "ask", KNOWN, "--json").stdout)["answers"]
    assert "promise" not in answer
    assert certificates_in(promised) == ["0001"]
    promise_in(promised)
    assert certificates_in(promised) == ["0001"], "the stored certificate is in force again"


def test_a_dry_run_opens_nothing(folder: Path) -> None:
    done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--dry-run", "--json")
    assert json.loads(done.stdout)["calls"] is not None
    assert not (folder / "testsets" / "openings.jsonl").exists()
    assert not (folder / "promises").exists()


# -- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("risk", ["0", "1", "-0.1", "1.5", "nan"])
def test_a_risk_outside_of_0_to_1_is_refused(folder: Path, risk: str) -> None:
    done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--risk", risk, code=1)
    assert "the risk must be a share between 0 and 1" in done.stderr


def test_too_few_rows_are_refused_with_the_number_before_anything_is_opened(folder: Path) -> None:
    rows = certified_rows("tune", known=20, unknown=0) + certified_rows(
        "confirm", known=58, unknown=0
    )
    write_rows(folder, rows)
    command = ("promise", "-t", "testsets/set.jsonl")
    dry = ragwright(folder, *command, "--dry-run", code=1)
    done = ragwright(folder, *command, code=1)
    assert dry.stderr == done.stderr, "no price of what will be refused"
    assert "the confirm split has 58 rows: too few" in done.stderr
    assert "59 answered held-out questions without a single error are needed" in done.stderr
    assert not (folder / "testsets" / "openings.jsonl").exists()


@pytest.mark.parametrize("split", ["tune", "confirm"])
def test_an_empty_split_is_refused(folder: Path, split: str) -> None:
    write_rows(folder, certified_rows(split, known=81, unknown=0))
    with Workbench.open(folder) as bench, pytest.raises(TestsetError):
        bench.promise(PromiseOptions("testsets/set.jsonl"))
    assert in_force(folder) is None


def in_force(folder: Path) -> object:
    with Workbench.open(folder) as bench:
        return certificate_in_force(bench.project.folder)


def test_a_test_set_without_splits_is_split(folder: Path) -> None:
    rows = certified_rows("tune", known=81, unknown=40)
    rows += certified_rows("confirm", known=81, unknown=40)
    for row in rows:
        del row["split"]
    write_rows(folder, rows)
    assert "answers" in promise_in(folder, PromiseOptions("testsets/set.jsonl", risk=0.1))


def test_only_wrong_answers_leave_the_confirm_split_closed(folder: Path) -> None:
    rows = certified_rows("tune", known=81, unknown=40)
    rows += certified_rows("confirm", known=81, unknown=40)
    for row in rows:
        row["reference"] = "a purple elephant"
        row.pop("answerable", None)
    write_rows(folder, rows)
    done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--json", code=100)
    document = json.loads(done.stdout)
    assert document["certified"] is False
    assert document["needed"] is None
    assert "no threshold keeps the share of wrong answers below 5 %" in document["reason"]
    assert document["reason"].endswith("the confirm split stays closed")
    assert not (folder / "testsets" / "openings.jsonl").exists()
    assert in_force(folder) is None


def test_what_looked_good_on_tune_may_fail_on_confirm_and_stays_failed(folder: Path) -> None:
    rows = certified_rows("tune", known=81, unknown=40)
    confirm = certified_rows("confirm", known=81, unknown=40)
    for row in confirm[::2]:
        row["reference"] = "a purple elephant"
        row.pop("answerable", None)
    write_rows(folder, rows + confirm)
    for _ in range(2):
        done = ragwright(folder, "promise", "-t", "testsets/set.jsonl", "--json", code=100)
        document = json.loads(done.stdout)
        assert document["opened"] is True
        assert document["failed"]["errors"] > 0
        assert document["needed"] is not None
    assert document["again"] is True
    assert len(Openings.of(folder / "testsets" / "openings.jsonl")) == 1


def test_rows_that_say_nothing_about_right_and_wrong_are_refused(folder: Path) -> None:
    rows = certified_rows("tune", known=81, unknown=0) + certified_rows(
        "confirm", known=81, unknown=0
    )
    for row in rows:
        del row["reference"]
    write_rows(folder, rows)
    with Workbench.open(folder) as bench, pytest.raises(TestsetError) as caught:
        bench.promise(PromiseOptions("testsets/set.jsonl"))
    assert "no row says whether its answer is right" in str(caught.value)


def test_a_measure_with_a_bound_says_what_is_right(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        promised = bench.promise(PromiseOptions("testsets/set.jsonl", measure="Contains>=1"))
    assert promised.certificate is not None
    assert promised.certificate.rule == "Contains>=1"
    with Workbench.open(folder) as bench:
        assert repeat_request(bench.project).measure == "Contains>=1"


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({"measure": "TokenF1"}, MeasureError, "cannot read 'TokenF1' as a rule"),
        ({"measure": "TokenF1>=baseline-0.1"}, ConfigError, "needs a fixed bound"),
        ({"scores": ("TokenF1",)}, ConfigError, "needs reference"),
        ({"scores": ("hitt",)}, ConfigError, "neither a score nor a measure"),
        ({"scores": ("KPrecision(x)",)}, MeasureError, "unknown parameter"),
        ({"scores": ()}, ConfigError, "no score to choose from"),
        ({"confidence": 1.0}, ConfigError, "the confidence must be a share"),
    ],
)
def test_wrong_options_are_refused(
    folder: Path, how: dict[str, object], error: type[Exception], text: str
) -> None:
    with Workbench.open(folder) as bench, pytest.raises(error, match=text):
        bench.promise(PromiseOptions("testsets/set.jsonl", **how))  # type: ignore[arg-type]


def test_without_a_promise_there_is_nothing_to_renew_or_show(folder: Path) -> None:
    assert "no promise to make again" in ragwright(folder, "promise", "--again", code=1).stderr
    assert "no promise in force" in ragwright(folder, "promise", "--status").stdout
    assert "no test set to certify on" in ragwright(folder, "promise", code=1).stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"certificate": "9999"}'])
def test_a_damaged_promise_withholds_everything_until_it_is_mended(
    promised: Path, text: str
) -> None:
    (promised / "promise.json").write_text(text, "utf-8")
    done = ragwright(promised, "ask", KNOWN, code=1)
    assert "damaged" in done.stderr
    assert "promise --withdraw" in done.stderr
    ragwright(promised, "promise", "--withdraw")
    assert "100 watts" in ragwright(promised, "ask", KNOWN).stdout


def test_a_damaged_or_edited_certificate_is_refused(promised: Path) -> None:
    path = promised / "promises" / "0001.json"
    body = json.loads(path.read_text("utf-8"))
    for changed in ({**body, "threshold": 0.0}, {**body, "risk": 2}, {"number": "0001"}):
        path.write_text(json.dumps(changed), "utf-8")
        assert "damaged" in ragwright(promised, "ask", KNOWN, code=1).stderr
    path.unlink()
    assert "the certificate in force is missing" in ragwright(promised, "ask", KNOWN, code=1).stderr


def test_two_processes_do_not_change_the_promise_at_once(folder: Path) -> None:
    held = FileLock(folder / ".ragwright" / "data" / "promise.lock", "promise")
    failures: list[Exception] = []

    def other() -> None:
        with Workbench.open(folder) as bench:
            for act in (
                lambda: bench.promise(PromiseOptions("testsets/set.jsonl")),
                lambda: withdraw_promise(bench.project.folder),
            ):
                try:
                    act()
                except StoreError as error:
                    failures.append(error)

    with held:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(failures) == 2
    assert "the promise of this project is being changed" in str(failures[0])
    assert not (folder / "testsets" / "openings.jsonl").exists()


# -- with a chat model -----------------------------------------------------------------------


def test_a_chat_model_is_asked_once_for_each_question(
    tmp_path: Path,
) -> None:
    def reply(request: ServerRequest) -> str:
        prompt = request.prompt
        name = next((n for n in things() if f"does the {n} need" in prompt), "")
        if not name:
            return "It was invented by Ada in 1801 [1]."
        return f"The {name} needs {100 + things().index(name)} watts [1]."

    with ScriptedServer(reply) as server:
        folder = certified_project(MakeProject(tmp_path), f"answer: {{model: '{server.url}#m'}}\n")
        with Workbench.open(folder) as bench:
            promised = bench.promise(PromiseOptions("testsets/set.jsonl"))
        assert promised.certificate is not None
        calls = len(server.requests)
        assert calls == 242, "each question of both splits once"
        write = (folder / "docs" / "new.md").write_text
        write("# New\n\nNothing about any thing.\n", "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
            renewed = bench.promise(repeat_request(bench.project))
            assert renewed.certificate is not None
            assert len(server.requests) - calls < 40, "stored replies are used again"
            pieces: list[str] = []
            [answer] = bench.ask_all(UNKNOWN, [""], AskOptions(sink=pieces.append))
        assert answer.abstained
        assert pieces == [], "an answer is shown after it was checked"
