"""SPEC D: each part of enhanced retrieval, and its evaluation, worked by hand.

D5 trains a model, which needs torch: ``tests/app/test_train.py`` holds it. BERTScore and
MoverScore (D10) read a transformer: ``tests/measure/test_alignment.py``.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from made_files import pdf_of
from story_tools import (
    Model,
    embedded,
    make_project,
    playing,
    read_json,
    read_rows,
    run,
    schema_keys,
    settings,
    write_files,
    write_rows,
)

from ragwright.testing import ScriptedServer, ServerRequest

MORE = "Old books say so, and later ones as well, in a hundred words or more on many pages."
TEXTS = {
    "mill.md": f"# Mill\n\nAnna Roth built the mill in 1790 beside the river. {MORE}\n",
    "roth.md": f"# Anna Roth\n\nAnna Roth was born in Ulm as the daughter of a cooper. {MORE}\n",
    "bridge.md": f"# Bridge\n\nThe bridge was closed for repairs after the flood. {MORE}\n",
    "inn.md": f"# Inn\n\nThe inn serves trout and bread to the carters. {MORE}\n",
}
QUESTION = "Where does the builder of the mill come from?"


server = playing("")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    chosen = f"embed: {{model: '{server.url}#words'}}\n"
    return make_project(tmp_path_factory.mktemp("d"), TEXTS, chosen)


def names(found: Mapping[str, Any]) -> list[str]:
    return [Path(hit["source"]).stem for hit in found["hits"]]


def test_d1_texts_are_normalised_and_labelled_and_tables_stay_tables(tmp_path: Path) -> None:
    cells = [("Part", "Weeks"), ("pump", "12"), ("valve", "26")]
    drawn = "".join(f"40 {700 - 20 * n} m 240 {700 - 20 * n} l S\n" for n in range(4))
    drawn += "".join(f"{40 + 100 * n} 700 m {40 + 100 * n} 640 l S\n" for n in range(3))
    for n, row in enumerate(cells):
        for column, cell in enumerate(row):
            drawn += f"BT /F 10 Tf {45 + 100 * column} {686 - 20 * n} Td ({cell}) Tj ET\n"
    files = {"docs/a.txt": "\ufeffThe e\u0301tude room is open.\r\nBring \x00ID."}
    chosen = "sources: [{source: docs/, metadata: {team: repair}}]\n"
    write_files(tmp_path, {**files, "docs/b.pdf": pdf_of(drawn), "ragwright.yaml": chosen})
    run(tmp_path, "ingest -q")
    [plain] = read_json(tmp_path, "retrieve étude --filter team=repair")["hits"]
    assert plain["text"].startswith("The étude room is open.\nBring ID."), "one form of each sign"
    assert plain["metadata"]["team"] == "repair"
    [table] = read_json(tmp_path, "retrieve valve")["hits"]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in table["text"].split("\n")]
    assert ["Part", "Weeks"] in rows
    assert ["valve", "26"] in rows
    none = ragwright(tmp_path, "retrieve", "valve", "--filter", "team=other", code=1)
    assert "no chunk has team = 'other'" in none.stderr


def test_d1_chunks_are_cut_by_the_chosen_strategy(tmp_path: Path) -> None:
    text = "# One\n\nAlpha is here. Beta is there.\n\nGamma too.\n\n# Two\n\nDelta and alpha.\n"
    folder = make_project(tmp_path, {"a.md": text})
    cuts = {("whole", 4): [], ("headings", 40): ["# Two"], ("tokens", 8): ["Gamma"]}
    cuts |= {("paragraphs", 6): ["Alpha", "Gamma"], ("sentences", 6): ["Beta", "Delta"]}
    for (by, size), beginnings in cuts.items():
        chosen = settings(chunk__by=by, chunk__size=size, chunk__overlap=0)
        run(folder, "ingest -q", *chosen)
        hits = read_json(folder, "retrieve -k 9", "one alpha beta gamma delta", *chosen)["hits"]
        assert sorted(hit["start"] for hit in hits) == [0, *map(text.index, beginnings)], by
        assert all(text[hit["start"] : hit["end"]] == hit["text"] for hit in hits)


def find(project: Path, server: ScriptedServer, model: Model, *methods: str, **more: object) -> Any:
    server.play(model)
    chosen = {"retrieve__query__methods": f"[{','.join(methods)}]", **more}
    chosen["retrieve__query__model"] = f"{server.url}#helper"
    return read_json(project, "retrieve", QUESTION, *settings(**chosen))


def test_d2_queries_are_rewritten_and_split(project: Path, server: ScriptedServer) -> None:
    model = Model(query={"query": "Anna Roth born"})
    told = find(project, server, model, "rewrite", retrieve__query__original=0)
    assert names(told)[0] == "roth"
    assert "rewritten as: Anna Roth born" in told["notes"]
    assert QUESTION in model.prompts("helper")[0]
    model = Model(queries={"queries": ["trout and bread", "flood repairs"]})
    keyword = {"retrieve__query__original": 0, "retrieve__search": "keyword"}
    told = find(project, server, model, "subqueries", **keyword)
    assert set(names(told)) == {"inn", "bridge"}
    assert "subqueries: trout and bread | flood repairs" in told["notes"]


def test_d2_written_passages_are_searched(project: Path, server: ScriptedServer) -> None:
    written = "the inn serves trout and bread to the carters"
    for method, searched in (("hyde", "{}"), ("query2doc", QUESTION + " [SEP] {}")):
        before, alone = len(server.requests), {"retrieve__query__original": 0}
        model = Model(helper=written)
        told = find(project, server, model, method, retrieve__search="dense", **alone)
        assert names(told)[0] == "inn"
        assert searched.format(written) in embedded(server, before)


def ask(project: Path, server: ScriptedServer, model: Model, question: str, **more: object) -> Any:
    server.play(model)
    chosen = {"answer__model": f"{server.url}#writer", **more}
    return read_json(project, "ask", question, *settings(**chosen))["answers"][0]


def routed(kind: str, more: bool = False, database: str = "") -> dict[str, Any]:
    route = {"route": kind, "database": database, "reason": "so it is"}
    return {**route, "rewrite": more, "split": more}


def by_model(server: ScriptedServer) -> dict[str, object]:
    helper = f"{server.url}#helper"
    chosen = {"retrieve__route__method": "model", "retrieve__route__model": helper}
    return {**chosen, "retrieve__query__model": helper}


def test_d2_the_router_chooses_rewrites_and_splits(project: Path, server: ScriptedServer) -> None:
    model = Model(
        route=routed("index", more=True),
        query={"query": "Anna Roth born"},
        queries={"queries": ["mill builder origin", "Anna Roth born"]},
        writer="From Ulm [1].",
    )
    told = ask(project, server, model, QUESTION, **by_model(server))
    assert (told["route"], told["route_reason"].split(" (")[0]) == ("index", "so it is")
    assert "rewritten as: Anna Roth born" in told["notes"]
    assert "subqueries: mill builder origin | Anna Roth born" in told["notes"]
    model = Model(route=routed("none"), writer="Guten Tag.")
    told = ask(project, server, model, "Say hello in German", **by_model(server))
    assert (told["route"], told["hits"], told["text"]) == ("none", [], "Guten Tag.")


def test_d2_a_statement_on_a_database_only_reads(project: Path, server: ScriptedServer) -> None:
    file = project / "shop.sqlite"
    with sqlite3.connect(file) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER, month TEXT, amount INTEGER)")
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(1, "May", 70), (2, "May", 25)])
    shop.close()
    shops = "[{name: shop, address: 'sqlite:///shop.sqlite'}]"
    chosen = {**by_model(server), "retrieve__databases": shops}
    select = "SELECT sum(amount) AS total FROM orders WHERE month = 'May'"
    said: dict[str, Any] = {"route": routed("sql", database="shop"), "writer": "95 [1]."}
    model = Model(statement={"statement": select}, **said)
    told = ask(project, server, model, "What did the orders of May amount to?", **chosen)
    assert (told["route"], told["hits"][0]["source"]) == ("sql", "sql:shop")
    assert told["hits"][0]["metadata"]["statement"] == select
    assert "| 95 |" in told["hits"][0]["text"]
    assert told["citations"][0]["source"] == "sql:shop"
    for evil in (
        "DELETE FROM orders",
        "WITH a AS (SELECT 1) INSERT INTO orders SELECT 3, 'June', 1 FROM a",
        "SELECT load_extension('x')",
        "ATTACH DATABASE 'other.sqlite' AS other",
        "PRAGMA writable_schema = 1",
    ):
        model = Model(statement={"statement": evil}, **said)
        told = ask(project, server, model, f"Please do this: {evil}", **chosen)
        assert told["route"] != "sql", "the index answers where the statement is refused"
        assert any("refused" in note or "statement" in note for note in told["notes"]), evil
    with sqlite3.connect(file) as shop:
        assert shop.execute("SELECT count(*), sum(amount) FROM orders").fetchone() == (2, 95)
    shop.close()


def test_d3_the_number_of_documents_and_reranking(project: Path, server: ScriptedServer) -> None:
    server.play(Model(ranker="[3] > [1] > [2]"))
    chosen = settings(
        retrieve__rerank__model=f"{server.url}#ranker", retrieve__rerank__method="listwise",
        retrieve__rerank__candidates=3,
    )  # fmt: skip
    query = "the bridge and the inn"
    assert len(read_json(project, "retrieve -k 1", query)["hits"]) == 1
    plain = names(read_json(project, "retrieve -k 3", query))
    told = read_json(project, "retrieve -k 2", query, *chosen)
    assert names(told) == [plain[2], plain[0]], "three candidates are ordered, two are kept"
    assert [hit["channels"]["rerank"]["rank"] for hit in told["hits"]] == [1, 2]
    assert told["hits"][0]["channels"]["search"]["rank"] == 3


def test_d3_the_search_goes_on_from_the_answer(project: Path, server: ScriptedServer) -> None:
    def reader(request: ServerRequest) -> str:
        rounds.append(request)
        answer = "Ulm" if len(rounds) > 1 else "Anna Roth born Ulm"
        return json.dumps({"satisfied": answer == "Ulm", "answer": answer, "next_query": ""})

    rounds: list[ServerRequest] = []
    server.play(reader)
    chosen = settings(
        retrieve__iterate__rounds=4,
        retrieve__iterate__model=f"{server.url}#reader", retrieve__search="keyword",
    )  # fmt: skip
    question = "Who built the mill, and of what town?"
    told = read_json(project, "retrieve -k 2", question, *chosen)
    once = settings(retrieve__search="keyword")
    assert "roth" not in names(read_json(project, "retrieve -k 2", question, *once))
    assert (names(told), len(rounds)) == (["mill", "roth"], 2)
    assert f"round 2 searched: {question} Anna Roth born Ulm" in told["notes"]
    assert "the model is satisfied after 2 rounds" in told["notes"]


def test_d4_contexts_are_summarised_in_three_ways(project: Path, server: ScriptedServer) -> None:
    class Writer(Model):
        def __call__(self, request: ServerRequest) -> str:
            if "messages" not in request.body:
                return ""
            self.seen.append(request)
            shown = request.prompt
            if "Merge the notes" in shown:
                return "merged notes [1] [2]"
            if "Notes so far" in shown:
                return "running notes [1] [2]"
            return "short note" if "Summarise the passage" in shown else "The mill [1]."

    passages = 2
    calls = {"concatenate": 0, "summarise_each": passages, "running": passages, "tree": 1}
    wanted = {"concatenate": "in 1790", "summarise_each": "short note", "running": "running notes"}
    for method, summaries in calls.items():
        model = Writer()
        told = ask(
            project, server, model, "Who built the mill beside the river?",
            answer__consolidate=method, retrieve__top_k=passages,
        )  # fmt: skip
        final = model.prompts("writer")[-1]
        assert len(model.seen) == summaries + 1, method
        assert wanted.get(method, "merged notes") in final
        assert ("in 1790" in final) == (method == "concatenate")
        assert told["citations"][0]["source"] == "docs/mill.md"


def test_d4_the_order_and_the_window_are_kept(project: Path, server: ScriptedServer) -> None:
    question = "Tell me of the mill, the bridge and the inn"
    orders = {"best_first": [1, 2, 3, 4], "best_last": [4, 3, 2, 1], "best_at_ends": [1, 3, 4, 2]}
    for order, ranks in orders.items():
        model = Model(writer="So [1].")
        told = ask(project, server, model, question, answer__hit_order=order, retrieve__top_k=4)
        assert [hit["rank"] for hit in told["hits"]] == ranks
        prompt = model.prompts("writer")[-1]
        places = [prompt.index(hit["text"].split("\n\n")[1].strip()) for hit in told["hits"]]
        assert places == sorted(places)
    model = Model(writer="So [1].")
    told = ask(project, server, model, question, answer__context_tokens=100, retrieve__top_k=4)
    kept, prompt = len(told["hits"]), model.prompts("writer")[-1]
    assert 0 < kept < 4
    assert sum(text.split("\n\n")[1].strip() in prompt for text in TEXTS.values()) == kept
    [note] = [note for note in told["notes"] if "left out" in note or "did not fit" in note]
    shown = {hit["title"] for hit in told["hits"]}
    assert all(title in note for title in {"Mill", "Anna Roth", "Bridge", "Inn"} - shown)


def test_d4_gold_questions_and_answers_are_exported_as_chat_turns(project: Path) -> None:
    gold = {"user_input": "Who built the mill?", "reference": "Anna Roth."}
    passage = "Anna Roth built the mill in 1790 beside the river."
    write_rows(project / "gold.jsonl", [{"id": "1", **gold, "reference_contexts": [passage]}])
    run(project, "synth --from gold.jsonl -o gold.chat.jsonl -q")
    [line] = read_rows(project / "gold.chat.jsonl")
    user, assistant = line["messages"]
    assert user == {"role": "user", "content": f"[1] {passage}\n\nQuestion: Who built the mill?"}
    assert assistant == {"role": "assistant", "content": "Anna Roth."}


def score(folder: Path, rows: list[dict[str, object]], measures: str, *words: str) -> Any:
    """Value of each measure and row: measure -> values in the rows' order."""
    write_rows(folder / "rows.jsonl", [{"user_input": "?", **row} for row in rows])
    told = read_json(folder, f"score rows.jsonl --measures {measures} --rows -q", *words)
    return {name: [row[name] for row in told["rows"]] for name in told["measures"]}


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    (tmp_path / "ragwright.yaml").write_text("sources: []\n")
    return tmp_path


def test_d6_retrieval_measures_by_hand(empty: Path) -> None:
    found_ids, gold = (list("xaybz"), list("xyz")), (["a", "b"], ["a"])
    rows: list[dict[str, object]] = [
        {"id": str(n), "retrieved_context_ids": ids, "reference_ids": right}
        for n, (ids, right) in enumerate(zip(found_ids, gold, strict=True))
    ]
    ideal = 1 + 1 / math.log2(3)
    wanted = {
        "Recall@2": 0.5, "Recall@5": 1.0, "Precision@2": 0.5, "Precision@5": 0.4, "MRR": 0.5,
        "HitRate@1": 0.0, "HitRate@2": 1.0, "nDCG@5": (1 / math.log2(3) + 1 / math.log2(5)) / ideal,
    }  # fmt: skip
    found = score(empty, rows, ",".join(wanted))
    for name, value in wanted.items():
        assert found[name] == pytest.approx([value, 0.0], abs=1e-6), name


def judged(folder: Path, measures: str, model: Model, row: Mapping[str, object]) -> Any:
    with ScriptedServer(model) as judge:
        chosen = settings(judge__model=f"{judge.url}#judge", judge__embedder=f"{judge.url}#words")
        found = score(folder, [{"id": "1", **row}], measures, *chosen)
    return {name: values[0] for name, values in found.items()}


ROW: dict[str, object] = {
    "user_input": "when was the mill built",
    "response": "Anna built the mill in 1790 at the Danube.",
    "reference": "The mill was built in 1790.",
    "retrieved_contexts": ["The mill was built in 1790.", "The tea is hot."],
}


def test_d6_without_gold_a_model_judges_what_was_retrieved(empty: Path) -> None:
    class Judge(Model):
        def __call__(self, request: ServerRequest) -> str:
            if "score" in schema_keys(request):
                return json.dumps({"reasoning": "so", "score": int("1790" in request.prompt)})
            return super().__call__(request)

    pieces = [("the year", True), ("the builder", False)]
    needed = [{"piece": piece, "reasoning": "so", "held": held} for piece, held in pieces]
    found = judged(empty, "JudgedRecall,JudgedPrecision@2", Judge(needed={"needed": needed}), ROW)
    assert found == {"JudgedRecall": 0.5, "JudgedPrecision@2": 0.5}


def test_d7_faithfulness_by_words_by_hand(empty: Path) -> None:
    row = {"id": "1", **ROW, "response": "The mill was rebuilt in 1790."}
    found = score(empty, [row], "KF1,KPrecision")
    # mill, was, in, 1790 of 5 words (no article) are among the 8 of the passages
    assert found["KPrecision"] == pytest.approx([4 / 5])
    assert found["KF1"] == pytest.approx([2 * (4 / 5) * (4 / 8) / (4 / 5 + 4 / 8)])


def test_d7_questions_from_the_answer_are_answered_on_the_context(empty: Path) -> None:
    spans = {"1790": "When?", "Anna": "Who?", "the Danube": "Where?"}
    answers = {"When?": "1790", "Who?": "", "Where?": "the Rhine"}

    class Judge(Model):
        def __call__(self, request: ServerRequest) -> str:
            keys = schema_keys(request)
            if "relation" in keys:
                return json.dumps({"reasoning": "so", "relation": "contradicted"})
            if "found" in keys:
                asked = next(question for question in answers if question in request.prompt)
                return json.dumps({"found": bool(answers[asked]), "answer": answers[asked]})
            listed = [{"span": span, "question": asked} for span, asked in spans.items()]
            return json.dumps({"spans": listed})

    assert judged(empty, "Q2", Judge(), ROW)["Q2"] == pytest.approx((1 + 0 + 0) / 3)


def test_d7_claims_and_a_critic(empty: Path) -> None:
    verdicts = [{"claim": n, "reasoning": "so", "supported": n == 1} for n in (1, 2, 3)]
    model = Model(
        claims={"claims": ["Built in 1790.", "By Anna.", "At the Danube."]},
        verdicts={"verdicts": verdicts},
        score={"reasoning": "so", "score": 0},
    )
    found = judged(empty, "Claims,Completeness,Groundedness", model, ROW)
    assert found == pytest.approx({"Claims": 1 / 3, "Completeness": 1 / 3, "Groundedness": 0})


def test_d8_questions_written_from_the_answer_resemble_the_question(empty: Path) -> None:
    asked = ["when was the mill built", "when was the mill", "who knows"]
    model = Model(questions={"questions": asked}, score={"reasoning": "so", "score": 4})
    found = judged(empty, "QuestionSimilarity,AnswerRelevance", model, ROW)
    assert found["QuestionSimilarity"] == pytest.approx((1 + 4 / math.sqrt(20) + 0) / 3, abs=1e-5)
    assert found["AnswerRelevance"] == 4
    shown = next(p for p in model.prompts("judge") if "questions" in p)
    assert "when was the mill built" not in shown, "the judge does not see what it is to guess"


def test_d9_capabilities_on_given_passages(project: Path, server: ScriptedServer) -> None:
    facts = {"When was the mill built?": ("mill", "1790"), "Where was Roth born?": ("roth", "Ulm")}
    rows: list[dict[str, object]] = []
    for asked, (name, fact) in facts.items():
        at = TEXTS[f"{name}.md"].index(fact)
        span = {"document_id": f"docs/{name}.md", "start": at, "end": at + len(fact), "text": fact}
        gold = {"reference": fact, "reference_spans": [span]}
        rows.append({"id": fact, "user_input": asked, **gold})
    write_rows(project / "gold.jsonl", rows)
    suites = {"noise", "rejection", "integration", "counterfactual"}
    made = "suite make --testset gold.jsonl -o suite.jsonl --passages 2 --doses 0,1/2,1 -q --suite"
    run(project, f"{made} {','.join(sorted(suites))}")
    assert suites <= {row["metadata"]["suite"] for row in read_rows(project / "suite.jsonl")}

    def reads(request: ServerRequest) -> str:
        shown = request.prompt
        known = [fact for asked, (_, fact) in facts.items() if asked in shown and fact in shown]
        unknown = "The passages do not answer this question."
        return f"{' and '.join(known)} [1]." if known else unknown

    server.play(reads)
    model = settings(answer__model=f"{server.url}#reader")
    told = read_json(project, "eval --testset suite.jsonl -q", *model)
    assert told["measures"]["RejectionRate"]["mean"] == 1.0
    assert told["measures"]["ErrorDetection"]["mean"] == 0.0, "it never reports an error"
    curves = {
        (curve["suite"], curve["quantity"]): {p["dose"]: p["mean"] for p in curve["points"]}
        for curve in read_json(project, "suite curves")["curves"]
    }
    assert (curves["noise", "accuracy"][0], curves["noise", "accuracy"][1]) == (1.0, 0.0)
    assert ("integration", "accuracy") in curves


def test_d10_text_measures_by_hand(empty: Path) -> None:
    response, reference = "the cat sat on a mat", "the cat was on the mat today"
    row: dict[str, object] = {"id": "1", "response": response, "reference": reference}
    measures = "BLEU(1),ROUGE(1),ROUGE(2),ROUGE(L),ROUGE(W),ROUGE(S),ROUGE(SU),EditDistance"
    found = {name: values[0] for name, values in score(empty, [row], measures).items()}
    words, gold = response.split(), reference.split()
    shared, brevity = 4, math.exp(1 - len(gold) / len(words))
    pairs = 6  # of the four words in common, each before those after it
    wanted = {
        "BLEU(1)": brevity * shared / len(words),
        "ROUGE(1)": 2 * shared / (6 + 7),
        "ROUGE(2)": 2 * 1 / (5 + 6),
        "ROUGE(L)": 2 * 4 / (6 + 7),
        "ROUGE(S)": 2 * pairs / (15 + 21),
        "ROUGE(SU)": 2 * (pairs + 4) / (15 + 6 + 21 + 7),
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-6)
    assert 0 < found["ROUGE(W)"] < found["ROUGE(L)"]
    assert 0 < found["EditDistance"] < 1


def test_d10_perplexity_and_a_measure_from_a_rubric_file(empty: Path) -> None:
    text = "one two three"
    tokens = re.findall(r"\s*\S+", text)
    chances = [-(zlib.crc32(token.encode()) % 1000) / 250 for token in tokens][1:]
    with ScriptedServer("") as server:
        row: dict[str, object] = {"id": "1", "response": text}
        found = score(empty, [row], "Perplexity", *settings(judge__completer=f"{server.url}#echo"))
    assert found["Perplexity"] == pytest.approx([math.exp(-sum(chances) / 2)], rel=1e-5)
    rubric = {
        "name": "tone", "summary": "How friendly, 0 to 2.", "scale": [0, 2], "needs": ["response"],
        "task": "Judge how friendly the answer is.",
        "levels": {"0": "Rude.", "1": "Neither.", "2": "Friendly."},
        "high_example": {"response": "With pleasure.", "reasoning": "Glad.", "score": 2},
        "low_example": {"response": "Go.", "reasoning": "Curt.", "score": 0},
    }  # fmt: skip
    text = json.dumps(rubric).replace('"0":', "0:").replace('"1":', "1:").replace('"2":', "2:")
    write_files(empty, {"rubrics/tone.yaml": text})
    model = Model(score={"reasoning": "so", "score": 1})
    assert judged(empty, "Rubric(tone)", model, ROW) == {"Rubric(tone)": 1}
    assert "Judge how friendly the answer is." in model.prompts("judge")[0]


def test_d11_the_table_of_the_tutorial(project: Path, server: ScriptedServer) -> None:
    """Any settings can stand for the tuned rows; training them needs torch."""
    facts = {"mill": "Who built the mill?", "inn": "Who eats trout?", "bridge": "What was closed?"}
    rows = [
        {"id": name + split, "user_input": asked, "reference": asked[:-1],
         "reference_ids": [f"docs/{name}.md"], "metadata": {"split": split}}
        for name, asked in facts.items() for split in ("tune", "confirm")
    ]  # fmt: skip
    write_rows(project / "table.jsonl", rows)
    judge = Model(score={"reasoning": "so", "score": 1}, ranker="[2] > [1]", writer="So it is [1].")
    server.play(judge)
    models = {"judge__model": f"{server.url}#judge", "answer__model": f"{server.url}#writer"}
    asked = "compare --table tutorial --testset table.jsonl --tuned retrieve.search=keyword"
    asked += f" --candidates 2 --keep 1 --rerank {server.url}#ranker"
    told = read_json(project, asked, *settings(retrieve__search="dense", **models))
    rows_of = ["base", "tuned", "base + rerank (2 -> 1)", "tuned + rerank (2 -> 1)"]
    assert [row["name"] for row in told["rows"]] == rows_of
    for row in told["rows"]:
        shown = row["measures"]
        assert {"MRR@5", "HitRate@5"} <= set(shown)
        assert (shown["MRR@5"]["n"], shown["Groundedness"]["mean"]) == (3, 1.0)
        assert next(shown[name] for name in shown if name.startswith("Rubric("))["mean"] == 1.0
    base, tuned, reranked, _ = (row["measures"]["MRR@5"]["mean"] for row in told["rows"])
    assert base < reranked < tuned == 1.0
