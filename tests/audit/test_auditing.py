"""`ragwright audit` on a project: stored, compared, gated, judged, priced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright.audit import Audit, Auditing, Finding, check_audit, ranked_findings, read_rules
from ragwright.core import ConfigError, RetrieveError
from ragwright.drafting import NewBatch, NewOutput
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
    assert kinds_of(audit) == ["contradictions", "references"]
    assert audit.documents == 3
    contradiction = next(f for f in audit.findings if f.kind == "contradictions")
    assert [place.source for place in contradiction.places] == ["docs/a.md", "docs/b.md"]
    assert contradiction.cost is not None
    assert 0 < contradiction.cost <= 1
    stored = bench.stored_audit(run.run)
    assert stored.findings == audit.findings
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
        fresh, _ = bench.audit(Auditing(since=snapshot))
        assert [finding.marks["reference"] for finding in fresh.findings] == ["lost.md"]
        assert fresh.known == 2
        with pytest.raises(ConfigError, match="there is no audit of 'nothing'"):
            bench.audit(Auditing(since="nothing"))


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
    with pytest.raises(ConfigError, match="does not look for age"):
        check_audit(audit, read_rules("age=0"))


def test_points_lost_come_first_then_severity_then_how_often_a_finding_is_met() -> None:
    share = "of 20 questions made from the documents have it among the first 5 hits"
    points = "points of nDCG@10 over 20 questions"
    link, contradiction, rare, lost = (
        Finding("references", "dead link", "low", (), "a", "", cost=0.9, cost_of=share),
        Finding("contradictions", "number", "high", (), "b", "", cost=0.2, cost_of=share),
        Finding("contradictions", "number", "high", (), "c", "", subject="c"),
        Finding("copies", "copy", "low", (), "d", "", cost=0.1, cost_of=points),
    )
    assert ranked_findings((link, rare, contradiction, lost)) == (lost, contradiction, rare, link)


def test_an_empty_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n")
    with Workbench.open(tmp_path) as bench, pytest.raises(RetrieveError, match="ingest"):
        bench.audit()


@pytest.mark.parametrize(
    ("replies", "verdict", "shown"),
    [
        (['{"reason": "Both set it.", "verdict": "contradiction"}'], "contradiction: Both", True),
        (['{"reason": "Two models.", "verdict": "compatible"}'], "compatible: Two models.", False),
        (["perhaps", '{"reason": "They differ.", "verdict": "compatible"}'], "compatible", False),
        (['{"verdict": "contradiction"}', "no"], "not judged: no usable judgment", True),
        (['{"reason": "I may not.", "verdict": null}'], "not judged: the judge declined", True),
        (['{"reason": "So.", "verdict": "maybe"}', "[]"], "not judged", True),
    ],
)
def test_a_judge_decides_on_candidates(
    folder: Path, replies: list[str], verdict: str, shown: bool
) -> None:
    waiting = list(replies)
    with ScriptedServer(lambda request: waiting.pop(0)) as server:
        session = Session((f"judge.model={server.url}#m",))
        with Workbench.open(folder, session) as bench:
            how = Auditing(kinds=("contradictions",))
            forecast = bench.forecast_audit(how)
            assert forecast.models[f"{server.url}#m"] == 1
            assert not server.requests
            audit, run = bench.audit(how)
            [stored] = bench.stored_audit(run.run, every=True).findings
    assert not waiting
    assert stored.verdict.startswith(verdict)
    assert bool(audit.findings) == shown
    assert "215" in server.requests[0].prompt
    assert "docs/b.md" in server.requests[0].prompt


def test_the_judge_is_not_paid_twice(folder: Path) -> None:
    def script(request: ServerRequest) -> str:
        return '{"reason": "Both set it.", "verdict": "contradiction"}'

    with ScriptedServer(script) as server:
        session = Session((f"judge.model={server.url}#m",))
        for _ in range(2):
            with Workbench.open(folder, session) as bench:
                bench.audit(Auditing(kinds=("contradictions",)))
        assert len(server.requests) == 1


def served(bench: Workbench, question: str, abstained: bool) -> None:
    output = NewOutput("text", "An answer.", "m", details={"abstained": abstained})
    bench.outputs.add(NewBatch("answer", {"question": question}, (output,)))


def test_questions_without_an_answer_are_clustered(bench: Workbench) -> None:
    for model in ("X1", "X2", "X3"):
        served(bench, f"How do I calibrate the pressure sensor of the {model}?", True)
    served(bench, "Where can I buy spare belts?", True)
    served(bench, "How is the bed cleaned?", False)
    audit, _ = bench.audit(Auditing(kinds=("unanswered",)))
    first, second = audit.findings
    assert first.marks["questions"] == 3
    assert first.cost == 0.6
    assert second.marks["examples"] == ["Where can I buy spare belts?"]


def test_a_chunk_that_its_own_words_do_not_find_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(6):
        text = "# Notes\n\nThe pump of the plant is checked every week by the fitter."
        (tmp_path / "docs" / f"{number}.md").write_text(f"{text}{' ' * number}\n\nEnd {number}.")
    (tmp_path / "docs" / "own.md").write_text("# Belts\n\nBelts of rubber are stored in the dark.")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\naudit: {reach_depth: 2}\n")
    with Workbench.open(tmp_path) as bench:
        bench.ingest()
        audit, _ = bench.audit(Auditing(kinds=("reach",)))
    sources = {finding.places[0].source for finding in audit.findings}
    assert len(sources) == 4
    assert "docs/own.md" not in sources


def test_points_that_a_testset_loses_are_the_price(folder: Path) -> None:
    text = DOCUMENTS["b.md"]
    start = text.index("The nozzle")
    gold = {"document_id": "docs/b.md", "start": start, "end": start + 80}
    row = {
        "id": "1",
        "user_input": "To how many °C is the nozzle of the X5-HOT printer heated? Heating",
        "reference_spans": [gold],
    }
    (folder / "set.jsonl").write_text(json.dumps(row) + "\n")
    with Workbench.open(folder) as bench:
        ranked = [hit.source for hit in bench.retrieve(row["user_input"]).hits]  # type: ignore[arg-type]
        assert ranked.index("docs/a.md") < ranked.index("docs/b.md")
        audit, _ = bench.audit(Auditing(kinds=("contradictions",), testset="set.jsonl"))
    [finding] = audit.findings
    assert finding.cost == pytest.approx(1 - 0.6309, abs=1e-3)
    assert finding.cost_of.startswith("points of nDCG@10")
