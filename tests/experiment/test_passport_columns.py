"""Sets of people's verdicts: column maps, adapters of others, broken files, recorded verdicts."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ragwright.core import ConfigError, PluginError, RagwrightError, TestsetError
from ragwright.experiment import PassportOptions, free_passport, open_people


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def row(at: int) -> dict[str, Any]:
    asked = {"uid": f"r{at}", "q": f"question {at // 2}", "answer_text": f"answer {at}"}
    seen = {"passage": "answer", "human": at % 5 + 1, "model_name": "ab"[at % 2]}
    return {**asked, **seen, "gpt": at / 10}


ROWS = [row(at) for at in range(10)]
COLUMNS = "uid=id q=user_input answer_text=response passage=retrieved_contexts"
MAP = (*COLUMNS.split(), "human=label.faithfulness(1..5)", "model_name=system")


def test_a_map_reads_any_columns(tmp_path: Path) -> None:
    people = open_people(str(written(tmp_path / "rows.jsonl", ROWS)), (*MAP, "gpt=verdict(0..1)"))
    assert [item.row.id for item in people.rated] == [row["uid"] for row in ROWS]
    first = people.rated[0]
    assert first.row.response == "answer 0"
    assert first.row.retrieved_contexts == ("answer",)
    assert (first.task, first.system) == ("question 0", "a")
    assert first.labels == {"faithfulness": {"people": 1.0}}
    assert people.rated[3].verdicts == {"gpt": 0.3}
    assert people.tasks == 5
    assert people.scales == {"gpt": (0.0, 1.0)}


def test_words_turned_scales_lists_objects_and_paths(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": "q", "response": "x", "v": "Bad", "e": 5, "notes": {"f": [1, 3]}},
        {"id": "b", "question": "q", "response": "y", "v": "good", "e": 1, "notes": {"f": [2]}},
    ]
    path = written(tmp_path / "rows.jsonl", rows)
    columns = ("v=label.ok(bad,good)", "e=label.ease(5..1)", "notes.f=label.faith(1..3)")
    people = open_people(str(path), columns)
    labels = [item.labels for item in people.rated]
    assert labels[0] == {
        "ok": {"people": 0.0},
        "ease": {"people": 1.0},
        "faith": {"people 1": 1.0, "people 2": 3.0},
    }
    assert labels[1]["ok"] == {"people": 1.0}
    assert labels[1]["ease"] == {"people": 5.0}
    assert "turned" in people.dimensions[1].mapping


def test_one_line_per_person_and_several_columns_are_several_people(tmp_path: Path) -> None:
    table = tmp_path / "long.csv"
    table.write_text("id,question,response,who,mark\n1,q,x,ann,1\n1,q,x,bob,0\n2,q,y,ann,1\n")
    people = open_people(str(table), ("who=rater", "mark=label.ok"))
    assert [dict(item.labels["ok"]) for item in people.rated] == [
        {"ann": 1.0, "bob": 0.0},
        {"ann": 1.0},
    ]
    wide = tmp_path / "wide.csv"
    wide.write_text("id,question,response,ann,bob\n1,q,x,yes,no\n")
    people = open_people(str(wide), ("ann=label.ok", "bob=label.ok"))
    assert people.rated[0].labels == {"ok": {"ann": 1.0, "bob": 0.0}}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((), "no column is mapped to a label"),
        (("humn=label.x",), "no row has a value under 'humn'"),
        (("human=lable.x",), "unknown role 'lable'"),
        (("human",), "cannot read 'human'"),
        (("human=label.x(1..3)",), "off the scale"),
        (("q=label.x",), "not a number"),
        (("human=label.x", "gpt=id", "uid=id"), "both mapped to id"),
    ],
)
def test_a_wrong_map_says_what_to_write(
    tmp_path: Path, columns: tuple[str, ...], message: str
) -> None:
    path = written(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(RagwrightError) as caught:
        open_people(str(path), columns)
    assert message in str(caught.value)
    assert caught.value.hint


def test_an_adapter_takes_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_set_reader.py").write_text(
        "from ragwright.core import Row\n"
        "from ragwright.experiment import Dimension, PeopleSet, RatedAnswer\n\n\n"
        "def read(files):\n"
        "    rated = tuple(\n"
        "        RatedAnswer(Row(c['id'], c['q'], c['a']), {'ok': {'p': float(c['ok'])}}, c['q'])\n"
        "        for _, _, c in files.entries('verdicts.csv')\n"
        "    )\n"
        "    return PeopleSet('own', rated, (Dimension('ok', 0, 1),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with zipfile.ZipFile(tmp_path / "own.zip", "w") as archive:
        archive.writestr("data/verdicts.csv", "id,q,a,ok\n1,who,me,1\n2,who,you,0\n")
    people = open_people(f"own_set_reader:read:{tmp_path}/own.zip")
    assert [item.labels["ok"]["p"] for item in people.rated] == [1.0, 0.0]
    with pytest.raises(PluginError):
        open_people(f"own_set_reader:reed:{tmp_path}/own.zip")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "own.zip").read_bytes()[:60])
    with pytest.raises(TestsetError, match="the archive cannot be read"):
        open_people(f"own_set_reader:read:{tmp_path}/cut.zip")


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("mtrg:x", (), "did you mean mtrag"),
        ("mtrag:", (), "has no path"),
        ("mtrag:https://example.org/set.git", (), "git clone"),
        ("nowhere.jsonl", (), "no such file"),
        ("qags:{folder}", (), "there is no 'summary_sentences'"),
        ("qags:{folder}", ("a=label",), "only for files of rows"),
    ],
)
def test_a_set_that_is_not_there(
    tmp_path: Path, text: str, columns: tuple[str, ...], message: str
) -> None:
    written(tmp_path / "mturk_x.jsonl", [{"text": "an article"}])
    with pytest.raises(RagwrightError) as caught:
        open_people(text.format(folder=tmp_path), columns)
    assert message in str(caught.value)


def test_qags_and_q2_turn_labels_so_that_higher_is_better(tmp_path: Path) -> None:
    votes = [{"worker_id": 0, "response": "yes"}, {"worker_id": 1, "response": "no"}]
    entry = {"article": "a b", "summary_sentences": [{"sentence": "a", "responses": votes}]}
    written(tmp_path / "mturk_x.jsonl", [entry])
    [item] = open_people(f"qags:{tmp_path}").rated
    assert item.labels == {"faithfulness": {"0": 1.0, "1": 0.0}}
    (tmp_path / "cross_annotation.csv").write_text(
        "episode_idx,topic,message,knowledge,dodeca_response,dodeca_label,memnet_response,"
        "memnet_label\n0,t,hi,k,one,1,two,0\n"
    )
    wrong, right = open_people(f"q2:{tmp_path}").rated
    assert wrong.labels == {"faithfulness": {"people": 0.0}}  # 1 in the file: inconsistent
    assert right.labels == {"faithfulness": {"people": 1.0}}


def test_recorded_verdicts_in_a_file(tmp_path: Path) -> None:
    people = str(written(tmp_path / "rows.jsonl", ROWS))
    judge = [{"id": row["uid"], "score": row["human"]} for row in ROWS]
    written(tmp_path / "gpt.jsonl", [*judge, {"id": "other", "score": 1}])
    how = PassportOptions(MAP, "KPrecision", (str(tmp_path / "gpt.jsonl"),))
    passport = free_passport(people, how)
    judged = passport.judge("gpt")
    assert judged is not None
    assert judged.dimensions["faithfulness"].spearman.value == pytest.approx(1)
    assert judged.dimensions["faithfulness"].kappa.value == pytest.approx(1)
    assert any("1 verdict of rows that the set lacks" in note for note in passport.notes)
    written(tmp_path / "none.jsonl", [{"id": "zz", "score": 1}])
    with pytest.raises(TestsetError, match="none of the 1 id"):
        free_passport(people, PassportOptions(MAP, "", (str(tmp_path / "none.jsonl"),)))


def test_what_can_judge_nothing_says_why(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("1 0 a 2\n1 0 b 0\n2 0 a 1\n")
    with pytest.raises(ConfigError, match="nothing can judge"):
        free_passport(f"qrels:{tmp_path}/qrels.txt")
    path = written(tmp_path / "rows.jsonl", [{"q": "a", "a": "b", "human": 1}])
    columns = ("q=user_input", "a=response", "human=label.ok(0..1)")
    with pytest.raises(ConfigError, match=r"KPrecision scored none .*no retrieved_contexts"):
        free_passport(str(path), PassportOptions(columns, measures="KPrecision"))
