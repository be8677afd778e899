"""`ragwright audit` on a project: stored, compared, gated, judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright.audit import Audit, AuditPlan, check_audit, read_rules
from ragwright.core import ConfigError, RetrieveError
from ragwright.project import Session
from ragwright.testing import ScriptedServer, ServerRequest
from ragwright.workbench import Workbench

HOT = "The nozzle of the X5-HOT printer is heated to {} °C before the filament is loaded."
DOCUMENTS = {
    "a.md": f"# Heating\n\n{HOT.format(215)}\n\nThe bed is cleaned with alcohol after each print.",
    "b.md": f"# Bulletin\n\n{HOT.format(230)}\n\nSee [the guide](gone.md) for more.",
    "c.md": "# Fans\n\nThe fan of the case turns at full speed while the printer cools down.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
    return tmp_path


@pytest.fixture
def bench(folder: Path) -> Iterator[Workbench]:
    with Workbench.open(folder) as opened:
        yield opened


def kinds_of(audit: Audit) -> list[str]:
    return sorted(finding.kind for finding in audit.findings)


def test_the_findings_are_ranked_and_stored(bench: Workbench) -> None:
    audit, run = bench.audit()
    assert audit.run == run.run
    assert kinds_of(audit) == ["references"], "no model has confirmed a contradiction"
    assert audit.documents == 3
    again, _ = bench.audit()
    assert again.findings == audit.findings


def test_only_what_an_earlier_audit_does_not_have_is_new(folder: Path) -> None:
    with Workbench.open(folder) as bench:
        audit, _ = bench.audit()
        snapshot = audit.snapshot
    moved = "Read this first.\n\n" + DOCUMENTS["b.md"] + "\n\nAnd see [more](lost.md)."
    (folder / "docs" / "b.md").write_text(moved, "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
        fresh, _ = bench.audit(AuditPlan(since=snapshot))
        assert [finding.marks["reference"] for finding in fresh.findings] == ["lost.md"]
        assert fresh.known == 1
        with pytest.raises(ConfigError, match="there is no audit of 'nothing'"):
            bench.audit(AuditPlan(since="nothing"))


def test_a_dismissed_finding_is_counted_and_not_shown(bench: Workbench, folder: Path) -> None:
    audit, _ = bench.audit()
    first = audit.findings[0]
    with pytest.raises(ConfigError, match="no stored audit has the finding"):
        bench.dismiss_finding("000000000000", "a test")
    with pytest.raises(ConfigError, match="needs a reason"):
        bench.dismiss_finding(first.id, " ")
    path = bench.dismiss_finding(first.id, "two printers")
    assert path.read_text("utf-8") == f"{first.id}  two printers\n"
    later, _ = bench.audit()
    assert first.id not in {finding.id for finding in later.findings}
    assert later.dismissed == 1


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("contradictions", "cannot read the rule"),
        ("contradictions>=3", "cannot read the rule"),
        ("copies=-1", "cannot read the rule"),
        ("contradiction=0", "unknown kind"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(rule: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_rules(rule)


def test_a_rule_on_a_kind_that_was_not_looked_for_is_refused() -> None:
    audit = Audit((), ("copies",))
    assert check_audit(audit, read_rules("copies<1, findings=0")) == ()
    with pytest.raises(ConfigError, match="does not look for codes"):
        check_audit(audit, read_rules("codes=0"))


def test_an_empty_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    with Workbench.open(tmp_path) as bench, pytest.raises(RetrieveError, match="ingest"):
        bench.audit()


@pytest.mark.parametrize(
    ("replies", "found", "note"),
    [
        (['{"reason": "Both set it.", "verdict": "contradiction"}'], True, ""),
        (['{"reason": "Two models.", "verdict": "compatible"}'], False, ""),
        (["perhaps", '{"reason": "They differ.", "verdict": "compatible"}'], False, ""),
        (['{"verdict": "contradiction"}', "no"], False, "not judged: no usable judgment"),
        (['{"reason": "I may not.", "verdict": null}'], False, "not judged: the judge declined"),
    ],
)
def test_a_pair_is_a_contradiction_where_the_judge_confirms_it(
    folder: Path, replies: list[str], found: bool, note: str
) -> None:
    waiting = list(replies)
    with ScriptedServer(lambda request: waiting.pop(0)) as server:
        session = Session((f"judge.model={server.url}#m",))
        with Workbench.open(folder, session) as bench:
            how = AuditPlan(kinds=("contradictions",), judge=True, every=True)
            forecast = bench.forecast_audit(how)
            assert forecast.models[f"{server.url}#m"] == 1
            assert not server.requests
            audit, _ = bench.audit(how)
    assert not waiting
    assert [place.source for f in audit.findings for place in f.places] == (
        ["docs/a.md", "docs/b.md"] if found else []
    )
    assert any(n.startswith(note) for n in audit.notes) if note else not audit.notes
    assert "215" in server.requests[0].prompt
    assert "docs/b.md" in server.requests[0].prompt


def test_contradictions_need_a_judge(bench: Workbench) -> None:
    audit, _ = bench.audit(AuditPlan(kinds=("contradictions",)))
    assert audit.notes == ("not looked for: contradictions, since it needs --judge",)
    with pytest.raises(ConfigError, match="no chat model can judge"):
        bench.audit(AuditPlan(judge=True))


def test_passages_that_no_question_of_a_test_set_finds(folder: Path) -> None:
    for number in range(25):
        text = f"# Part {number}\n\nThe nozzle of the X5-HOT of part {number} is hot.\n"
        (folder / "docs" / f"part{number}.md").write_text(text)
    row = {"user_input": "How hot is the nozzle of the X5-HOT?", "reference": "215 °C"}
    (folder / "set.jsonl").write_text(json.dumps(row) + "\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
        audit, _ = bench.audit(AuditPlan(kinds=("reach",), testset="set.jsonl"))
    reached = {place.source for f in audit.findings for place in f.places}
    assert "docs/c.md" in reached
    assert len(reached) == len(DOCUMENTS) + 25 - 20
    assert "first 20 hits of any of 1 question" in audit.findings[0].why


def test_the_judge_is_not_paid_twice(folder: Path) -> None:
    def script(request: ServerRequest) -> str:
        return '{"reason": "Both set it.", "verdict": "contradiction"}'

    with ScriptedServer(script) as server:
        session = Session((f"judge.model={server.url}#m",))
        for _ in range(2):
            with Workbench.open(folder, session) as bench:
                bench.audit(AuditPlan(kinds=("contradictions",), judge=True))
        assert len(server.requests) == 1
