"""The pages without a browser: what they show, who may see them, what is escaped."""

from __future__ import annotations

import html
import re
from contextlib import chdir
from pathlib import Path
from urllib.parse import quote

import pytest
from served import served
from small_project import MakeProject

from ragwright import EvaluationOptions, Workbench
from ragwright.drafting import OutputQuery
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import ScriptedServer

QUESTION = "How often must the brake fluid be changed?"
HOSTILE = "# <script>alert(1)</script>\n\nThe fuse <img src=x onerror=alert(2)> is red. {{ 7*7 }}\n"
ROW = '{"user_input": "How often must the brake fluid be changed?", "reference": "two years"}\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook, personas: [engineer, marketing]}\n")
    (folder / "docs/<b>hostile<b>.md").write_text(HOSTILE, "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def test_a_form_asks_without_any_script(project: Path) -> None:
    with served(project) as running:
        reply = running.http.post("/", data={"q": QUESTION, "persona": "*"})
        assert reply.status_code == 200
        marked = "<mark>The brake fluid must be changed every two years.</mark>"
        assert reply.text.count(marked) == 2, "one for each persona"
        assert "No chat model is set: these passages match best." in reply.text
        unfound = running.http.post("/", data={"q": "Reciprocal zanzibars?"}).text
    why = reply.text[reply.text.index("Why this answer") :]
    assert "quoted as [1]" in why
    why = unfound[unfound.index("Why this answer") :]
    assert "was found by the words of the question" in why


@pytest.mark.slow
def test_an_abstention_names_the_words_that_are_in_no_document(project: Path) -> None:
    question = "Which Zeppelins landed in Oslo with brake fluid?"
    with served(project) as running:
        page = running.http.post("/", data={"q": question}).text
        body = {"model": "handbook", "messages": [{"role": "user", "content": question}]}
        details = running.http.post("/v1/chat/completions", json=body).json()["ragwright"]
    assert "In no document: Zeppelins, landed, Oslo." in page
    assert details["abstained"]
    assert details["citations"] == details["snippets"] == []


@pytest.mark.slow
def test_everything_foreign_is_escaped_and_no_script_but_ours_may_run(project: Path) -> None:
    name = quote("docs/<b>hostile<b>.md")
    with served(project) as running:
        asked = running.http.post("/", data={"q": "<script>alert(3)</script> Which fuse is red?"})
        pages = [asked, running.http.get("/sources"), running.http.get(f"/source?id={name}")]
        pages.append(running.http.get("/outputs"))
        pages.append(running.http.get("/source?id=%3Cscript%3Ealert(4)%3C/script%3E"))
    for page in pages:
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text
        assert "<b>hostile" not in page.text
        policy = page.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
    assert "{{ 7*7 }}" in pages[2].text, "text of documents is no template"


def test_sources_are_listed_and_show_their_text(project: Path) -> None:
    with served(project) as running:
        listed = running.http.get("/sources").text
        whole = running.http.get("/source", params={"id": "docs/service.md"}).text
        gone = running.http.get("/source", params={"id": "docs/none.md"})
    assert "3 documents" in listed
    assert "The coolant must be changed every five years." in whole
    assert gone.status_code == 404


@pytest.mark.slow
def test_runs_are_listed_and_compared_with_a_baseline(project: Path) -> None:
    rows = project / "rows.jsonl"
    rows.write_text(ROW, "utf-8")
    with Workbench.open(project) as bench:
        runs = [
            bench.evaluate(str(rows), "TokenF1", EvaluationOptions(answers=True))[1].run
            for _ in "ab"
        ]
    with served(project) as running:
        listed = running.http.get("/experiments").text
        run_page = running.http.get(f"/experiments/{runs[0]}")
        both = {"baseline": runs[0], "run": runs[1]}
        two = running.http.get("/compare", params=both)
        lost = [
            running.http.get("/experiments/nothing"),
            running.http.get("/compare", params={**both, "run": "nothing"}),
        ]
    assert all(run in listed for run in runs)
    assert f'name="baseline" value="{runs[0]}"' in listed, "a baseline is chosen beforehand"
    assert run_page.status_code == two.status_code == 200
    assert "TokenF1" in run_page.text
    assert " is proven." in two.text
    assert all(run in two.text for run in runs)
    assert {page.status_code for page in lost} == {404}


@pytest.mark.slow
def test_a_sweep_shows_its_report(project: Path) -> None:
    (project / "rows.jsonl").write_text(ROW.replace("{", '{"split": "tune", ', 1), "utf-8")
    (project / "s.yaml").write_text(
        "study: {testset: rows.jsonl, measures: TokenF1, objective: [TokenF1, context_tokens]}\n"
        "chunk: {size: [20, 60], overlap: 0}\n",
        "utf-8",
    )
    with chdir(project), Workbench.open(".") as bench:
        run = bench.sweep("s.yaml").run
    with served(project) as running:
        listed = running.http.get("/experiments").text
        shown = running.http.get(f"/experiments/{run}").text
        trial = running.http.get(f"/experiments/{run}:T001")
    assert f'href="/experiments/{run}"' in listed
    assert "chunk.size" in shown
    assert "Leaderboard" in shown
    assert trial.status_code == 200


@pytest.mark.slow
def test_outputs_take_feedback(project: Path) -> None:
    with served(project) as running:
        running.ask(QUESTION)
        assert QUESTION in running.http.get("/outputs").text
        done = running.http.post("/outputs/1.1", data={"verdict": "rejected", "note": "dull"})
        assert done.status_code == 303
        assert "dull" in running.http.get("/outputs/1.1").text
        assert QUESTION in running.http.get("/outputs?verdict=rejected").text
        assert running.http.get("/outputs/9.9").status_code >= 400


@pytest.mark.slow
def test_sources_show_the_last_ingest_to_those_who_may_see_all(project: Path) -> None:
    (project / "docs" / "broken.pdf").write_text("no PDF", "utf-8")
    with Workbench.open(project) as bench:
        failed = bench.ingest().failures[0]
    keys = ServeKeys(ProjectFolder(project))
    owner = keys.add(ServeKey("owner", "owner"))
    reader = keys.add(ServeKey("reader", filters=("source=docs/codes.md",)))
    with served(project) as running:
        seen = html.unescape(running.client(owner).get("/sources").text)
        assert "UTC: 1 failed, 3 unchanged" in seen
        assert failed.source in seen
        assert "broken.pdf" not in running.client(reader).get("/sources").text
    with Workbench.open(project) as bench:
        bench.forget("docs/codes.md")
    with served(project) as running:
        assert "Last ingest" not in running.client(owner).get("/sources").text


@pytest.mark.slow
def test_readers_sign_in_with_their_key_and_see_their_part(project: Path) -> None:
    keys = ServeKeys(ProjectFolder(project))
    reader = keys.add(ServeKey("reader", filters=("source=docs/codes.md",)))
    owner = keys.add(ServeKey("owner", "owner"))
    with served(project) as running:
        http = running.client()
        sent = http.get("/outputs/1.1?a=b", headers={"accept": "text/html"})
        assert sent.status_code == 303
        assert sent.headers["location"] == "/login?next=%2Foutputs%2F1.1%3Fa%3Db"
        assert http.post("/login", data={"key": "rw_wrong"}).status_code == 401
        away = http.post("/login", data={"key": reader, "next": "//elsewhere.example"})
        assert away.headers["location"] == "/"
        cookie = away.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert reader not in cookie, "a cookie of its own, not the key"
        listed = http.get("/sources").text
        assert "docs/codes.md" in listed
        assert "docs/service.md" not in listed
        assert "/outputs" not in listed, "an owner's section"
        assert http.get("/outputs").status_code == 403
        crossed = http.post("/outputs/1.1", data={}, headers={"origin": "https://other.example"})
        assert crossed.status_code == 403
        http.post("/logout")
        assert http.get("/sources").status_code == 401
        http.post("/login", data={"key": owner})
        assert http.get("/outputs").status_code == 200


def test_without_a_script_a_question_follows_an_answer_and_is_rated(project: Path) -> None:
    with served(project) as running:
        first = running.http.post("/", data={"q": "What does APP_w304 mean?"}).text
        composer = first[first.index('<form id="ask"') :].partition("</form>")[0]
        fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', composer))
        fields = {name: html.unescape(value) for name, value in fields.items()}
        assert "APP_w304" in fields["earlier"]
        second = running.http.post("/", data={"q": "And what about APP_w305?", **fields}).text
        assert "brake light switch" in second
        assert "What does APP_w304 mean?" in second
        [rated] = re.findall(r'name="id" value="([^"]+)"', second)
        form = {"id": rated, "verdict": "rejected", "note": "too short"}
        thanks = running.http.post("/ask/feedback", data=form)
        assert thanks.status_code == 200
        assert "stored" in thanks.text
        unknown = running.http.post("/ask/feedback", data={**form, "id": "chatcmpl-x"})
        assert unknown.status_code == 404
        assert running.http.post("/ask/feedback", data={}).status_code == 400
        wrong = running.http.post("/", data={"q": "And now?", "earlier": "[1]"})
        assert wrong.status_code == 400
    with Workbench.open(project) as bench:
        [output] = bench.outputs.find(OutputQuery(verdict="rejected", scope=None))
    assert output.note == "too short"


def test_readers_see_no_address_of_a_model(tmp_path: Path) -> None:
    with ScriptedServer("Every two years [1].") as model:
        folder = MakeProject(tmp_path)(f"answer: {{model: '{model.url}#writer'}}\n")
        with Workbench.open(folder) as bench:
            bench.ingest()
        keys = ServeKeys(ProjectFolder(folder))
        reader = keys.add(ServeKey("reader"))
        owner = keys.add(ServeKey("owner", role="owner"))
        question = "When is the brake fluid changed?"
        with served(folder) as running:
            for key, sees in ((reader, False), (owner, True)):
                http = running.client(key)
                page = http.post("/", data={"q": question}).text
                body = {"messages": [{"role": "user", "content": question}]}
                reply = http.post("/v1/chat/completions", json=body).text
                streamed = http.post("/v1/chat/completions", json={**body, "stream": True}).text
                for text in (page, reply, streamed):
                    assert (model.url in text) is sees
                    assert "writer" in text


def test_sources_are_searched(project: Path) -> None:
    narrow = ServeKeys(ProjectFolder(project)).add(
        ServeKey("me", role="reader", filters=("source=docs/codes.md",))
    )
    owner = ServeKeys(ProjectFolder(project)).add(ServeKey("all", role="owner"))
    with served(project) as running:
        http = running.client(owner)
        listed = http.get("/sources", params={"find": "SERV"}).text
        assert "docs/service.md" in listed
        assert "docs/codes.md" not in listed
        nothing = http.get("/sources", params={"find": "zebra"}).text
        assert "contains “zebra”" in nothing
        hidden = running.client(narrow).get("/sources", params={"find": "docs"}).text
        assert "docs/codes.md" in hidden
        assert "docs/service.md" not in hidden


def test_the_list_of_experiments_shows_scores(project: Path) -> None:
    rows = project / "rows.jsonl"
    rows.write_text(ROW, "utf-8")
    with Workbench.open(project) as bench:
        evaluation, _ = bench.evaluate(str(rows), "TokenF1", EvaluationOptions(answers=True))
    mean = evaluation.summaries[0].mean
    assert mean is not None
    with served(project) as running:
        page = running.http.get("/experiments").text
    assert f'TokenF1 <b class="fig">{mean:.3f}</b>' in page
    assert "counts an abstention" not in page


def test_the_list_of_experiments_counts_abstentions_as_the_worst_value(project: Path) -> None:
    unknown = '{"user_input": "Who paints zeppelins in Quito?", "reference": "Ana"}\n'
    (project / "rows.jsonl").write_text(ROW + unknown, "utf-8")
    with Workbench.open(project) as bench:
        [summary] = bench.evaluate(
            str(project / "rows.jsonl"), "Contains", EvaluationOptions(answers=True)
        )[0].summaries
    assert (summary.mean, summary.mean_with_abstained, summary.coverage) == (1.0, 0.5, 0.5)
    with served(project) as running:
        page = " ".join(running.http.get("/experiments").text.split())
    assert '<b class="fig">0.500</b> <span class="note">(1.000 on the 50 % answered)' in page
    assert "counts an abstention on a row with gold as the worst value" in page
