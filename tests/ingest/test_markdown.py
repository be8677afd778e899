"""Front matter, delimited text, mails and mailboxes."""

from __future__ import annotations

import base64
import quopri
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import made_files as make
import pytest
from one_file import read, read_all, read_folder, refused

from ragwright.core import MalformedSourceError, UnclearGroupsError

FRONT = "version: 1.10\ncode: 007\ntime: 12:30\nprice: 2.5\nyear: 2026"
TOML = 'version = 1.10\ncode = "007"\ntime = 12:30:00\nprice = 2.5\nyear = 2026'


def test_front_matter_keeps_what_is_written() -> None:
    for front in (f"---\n{FRONT}\n---\nText\n", f"+++\n{TOML}\n+++\nText\n"):
        found = read("a.md", front)
        assert found.text == "Text\n"
        kept = {name: found.metadata[name] for name in ("version", "code", "price", "year")}
        assert kept == {"version": "1.10", "code": "007", "price": 2.5, "year": 2026}
        assert str(found.metadata["time"]).startswith("12:30")
    fields = "title: Error C2065\ndate: 2024-01-02\nf1_keywords: [C2065]\nlang: en-US"
    text = "# Error\ntext\n```\n# not a heading\n```\n## More\nlast\n"
    found = read("a.md", f"---\n{fields}\n---\n{text}")
    assert (found.title, found.created, found.language) == ("Error C2065", "2024-01-02", "en")
    assert found.metadata["f1_keywords"] == ("C2065",)
    assert [(s.title, s.level) for s in found.sections] == [("Error", 1), ("More", 2)]
    assert found.text == text


@pytest.mark.parametrize(
    ("front", "line", "key", "why"),
    [
        ("visibility: private\ncreated: 2024-99-99", 3, "created", "2024-99-99"),
        ("visibility: private\nbig: " + "9" * 5000, 3, "big", "digits"),
        ("visibility: private\nscore: .nan", 3, "score", "finite"),
        ("visibility: private\nscore: 1.0e+999", 3, "score", "finite"),
        ("visibility: private\nscores: [1, .inf]", 3, "scores", "finite"),
        ("visibility: private\nnumber: 18446744073709551616", 3, "number", "64 bits"),
        ("visibility: private\ntitle: [a, b]", 3, "title", "list"),
        ("visibility: private\nVisibility: public", 3, "Visibility", "same field"),
        ("visibility: private\ntitle: a: b", 3, "title", "mapping values"),
        ("visibility: private\ntitle: !!python/name:os.system x", 3, "title", "tag"),
        ("visibility: private\ntitle: " + "[" * 3000 + "]" * 3000, 3, "title", "nested"),
        ("visibility: &v [*v]", 2, "visibility", "itself"),
    ],
)
def test_front_matter_is_read_whole_or_the_document_is_not(
    front: str, line: int, key: str, why: str, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text(f"---\n{front}\n---\n\nSecret text.\n", "utf-8")
    (tmp_path / "b.md").write_text("---\nvisibility: private\n---\n\nFine.\n", "utf-8")
    [fine], [failure] = read_folder(tmp_path)
    assert fine.metadata == {"visibility": "private"}
    assert (failure.source, failure.error.where) == ("a.md", f"a.md:{line}")
    assert f"{key!r}" in failure.error.what
    assert why in failure.error.what
    assert failure.error.hint


ALIASES = "".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]\n" for n in range(1, 10))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"---\nk0: &k0 [x]\n{ALIASES}---\n\nText.\n", "aliases"),
        ("---\nvisibility: private\ntext", "not closed"),
        (f"---\nvisibility: private\n# {'x' * 70_000}\n---\ntext", "not closed"),
        (f"---\nx{' ' * 60_000}\ny: a: b\n---\ntext", "key 'y'"),
        ("+++\na = \n+++\nText\n", "front matter"),
        ("+++\ngroups = 3\n+++\nText\n", "front matter"),
        ("+++\na = 1\nText\n", "front matter"),
    ],
    ids=[
        "aliases of aliases",
        "no end",
        "far end",
        "a line of spaces",
        "no value",
        "groups",
        "no end of TOML",
    ],
)
def test_front_matter_that_cannot_be_read_is_refused(text: str, said: str) -> None:
    kind = UnclearGroupsError if "groups" in text else MalformedSourceError
    assert said in refused(kind, "a.md", text)


@pytest.mark.parametrize(
    "front",
    [
        "visibility:\n  level: private\n  by: owner",
        "visibility: [[private], owner]",
        "visibility: [{level: private}, {by: [owner]}]",
    ],
)
def test_a_filter_meets_every_value_of_a_nested_field(front: str) -> None:
    found = read("a.md", f"---\n{front}\n---\n\nText.\n")
    assert found.metadata["visibility"] == ("private", "owner")


def test_rules_around_text_are_no_front_matter() -> None:
    for text in ("---\nA sentence.\n---\n\nMore.\n", "---\n\nA sentence: it ends.\n"):
        assert read("a.md", text).text == text


@pytest.mark.parametrize(
    ("text", "shown", "said"),
    [
        ("sep=;\nA;B\n1,5;2\n", "| A | B |\n| - | - |\n| 1,5 | 2 |", ""),
        ("SEP=\t\r\nA\tB\r\n1\t2\r\n", "| A | B |\n| - | - |\n| 1 | 2 |", ""),
        ("From X\nMade;9 May\n\nA;B;C\n1;2;3\n", "From X\nMade 9 May\n\n| A | B | C |", ""),
        ("From X;;\nA;B;C\n1;2;3\n", "From X\n\n| A | B | C |", ""),
        ("From X\nA,B\n1,2\n3,4\n", "From X\n\n| A | B |", ""),
        ("A,B\n1,2\n3,4\n", "| A | B |\n| - | - |\n| 1 | 2 |", ""),
        ("A,B\nx\n1,2\n3,4\n", "| A | B |\n| - | - |\n| x |  |", "a.csv:2"),
        ("Name\nAnn\nBob\n", "| Name |\n| - |\n| Ann |", ""),
        ('a,b,c\n1,2,3\n"x\ny",2\n4,5,6,7\n', "| a | b | c |", "row 3 has 2, row 5 has 4"),
        ('a,b\n"x,1\ny,2\n', "| a | b |", "quot"),
        ("sep=;\nMade by X\n\nA;B\n1;2\n3;4\n5\n", "Made by X\n\n| A | B |", "a.csv:7"),
    ],
)
def test_a_table_of_text_and_the_lines_above_it(text: str, shown: str, said: str) -> None:
    found = read("a.csv", text)
    assert found.text.startswith(shown)
    assert len(found.faults) == bool(said)
    assert said in "".join(map(str, found.faults))


def test_cells_of_ragged_rows_stay_and_an_open_quote_swallows_none() -> None:
    found = read("a.csv", 'a,b,c\n1,2,3\n"x\ny",2\n4,5,6,7\n')
    assert found.text.endswith("| x y | 2 |  |\n| 4 | 5 | 6,7 |")
    assert [fault.where for fault in found.faults] == ["a.csv:3"]
    assert "| y | 2 |" in read("a.csv", 'a,b\n"x,1\ny,2\n').text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found(delimiter: str) -> None:
    rows = [["name", "a price, net", "place; street"], ["x", "1,5", "Rue A; 3"], ["y", "2,5", "B"]]
    text = "\n".join(delimiter.join(f'"{cell}"' for cell in row) for row in rows)
    found = read("a.csv", text)
    assert not found.faults
    assert "| x | 1,5 | Rue A; 3 |" in found.text


HEADERS = "From: a@example.org\nTo: b@example.org\nSubject: Gate\n"
BEGIN = b"From x@y Mon Mar  2 10:00:00 2026\n"
SHOWN = (
    "<p>The gate opens at six on 9 June.</p><table><tr><th>Key</th></tr><tr><td>7</td></tr></table>"
)


def mail(text: str, subject: str = "Gate", encode: str = "quoted-printable") -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "a@example.org", "b@example.org", subject
    message.set_content(text, cte=encode)
    return message


@pytest.mark.parametrize("encode", ["base64", "quoted-printable", "8bit"])
@pytest.mark.parametrize("name", ["a.mbox", "Inbox", "old.mbx"])
def test_a_mailbox_is_its_mails(tmp_path: Path, name: str, encode: str) -> None:
    box = b""
    for number in range(3):
        mark = ">" * (encode == "8bit")  # as mailboxes mark such a line
        text = f"Prüfung {number} ist fällig.\n\n{mark}From here on, a quote.\n"
        box += BEGIN + bytes(mail(text, f"T{number}", encode)) + b"\n"
    for end in (b"\n", b"\r\n"):
        written = box.replace(b"\r\n", b"\n").replace(b"\n", end)
        documents, failures = read_all(tmp_path, name, written)
        assert not failures
        assert [document.title for document in documents] == ["T0", "T1", "T2"]
        assert [document.id for document in documents] == [f"{name}#{n}.eml" for n in (1, 2, 3)]
        assert documents[1].text == "Prüfung 1 ist fällig.\n\nFrom here on, a quote."


@pytest.mark.parametrize("coding", ["base64", "quoted-printable", "8bit"])
def test_a_mail_within_a_mail(tmp_path: Path, coding: str) -> None:
    codes: dict[str, Any] = {
        "base64": base64.encodebytes,
        "quoted-printable": quopri.encodestring,
        "8bit": bytes,
    }
    outer = (
        f"{HEADERS}MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n"
        "Content-Type: text/plain\n\nSee below.\n--B\nContent-Type: message/rfc822\n"
        f"Content-Transfer-Encoding: {coding}\n\n"
    ).encode()
    inner = codes[coding](bytes(mail("Recall all valves: Größe 9.")))
    documents, failures = read_all(tmp_path, "a.eml", outer + inner + b"\n--B--\n")
    assert not failures
    assert [d.text for d in documents] == ["See below.", "Recall all valves: Größe 9."]


@pytest.mark.slow
def test_attachments_are_documents_of_their_own(tmp_path: Path) -> None:
    inner, message = mail("inside words", "Inner"), mail("plain words", "Réunion")
    message["Date"] = "Mon, 05 Feb 2024 10:00:00 +0100"
    message.add_alternative("<p>html words</p>", subtype="html")
    message.add_attachment("x,y\n1,2\n", subtype="csv", filename="../t.csv")
    message.add_attachment(make.png(), maintype="image", subtype="png", filename="p.png")
    message.add_attachment(inner)
    found, failures = read_all(tmp_path, "m.eml", bytes(message))
    assert [d.id for d in found] == ["m.eml", "m.eml#t.csv", "m.eml#message-3.eml"]
    assert (found[0].title, found[0].created) == ("Réunion", "2024-02-05T10:00:00+01:00")
    assert [found[0].text, found[2].text] == ["plain words", "inside words"]
    assert [f.source for f in failures] == ["m.eml#p.png"]
    boxed = mail("See the list.")
    boxed.add_attachment(b"lot;count\n7;120\n", "text", "csv", filename="lots.csv")
    found, _ = read_all(tmp_path, "a.mbox", BEGIN + bytes(boxed))
    assert [d.id for d in found] == ["a.mbox#1.eml", "a.mbox#1.eml#lots.csv"]
    signed = mail("The pressure is 9 bar.")
    signed.add_attachment(b"\0\1", "application", "pkcs7-signature", filename="smime.p7s")
    (one,), failures = read_all(tmp_path, "1700000000.host:2,S", bytes(signed))
    assert (one.text, failures) == ("The pressure is 9 bar.", [])
    for _ in range(6):
        outer = mail("level")
        outer.add_attachment(inner)
        inner = outer
    found, failures = read_all(tmp_path, "deep.eml", bytes(inner))
    assert [d.text for d in found] == ["level"] * 4
    assert "mails deep are not read" in failures[0].error.what


@pytest.mark.parametrize(
    "stub",
    [
        "Open this mail in your browser: https://example.org/x",
        "Your e-mail program does not show HTML.",
        "-- \n",
        "",
    ],
)
def test_the_part_that_says_most_is_read(stub: str) -> None:
    message = mail(stub)
    message.add_alternative(SHOWN, "html")
    text = read("a.eml", bytes(message)).text
    assert "The gate opens at six on 9 June." in text
    assert "| 7 |" in text


def test_two_equal_parts_are_read_once_and_different_ones_both() -> None:
    message = mail("The gate opens at six on 9 June.\nKey 7")
    message.add_alternative(SHOWN, "html")
    assert read("a.eml", bytes(message)).text.count("gate opens") == 1
    words = " ".join(f"word{n} thing{n}" for n in range(20))
    message = mail(words)
    message.add_alternative(f"{SHOWN}<p>{words.replace('word', 'other').upper()}</p>", "html")
    text = read("a.eml", bytes(message)).text
    assert words in text.replace("\n", " ")
    assert "gate opens" in text


def test_encodings_of_mails() -> None:
    body = "Content-Type: text/plain; charset={}\n\nGrößte Prüfung der Pumpe, alle Wochen wieder.\n"
    for stated, real in (("utf-8", "cp1252"), ("no-such", "cp1252"), ("us-ascii", "utf-8")):
        found = read(
            "a.eml", (HEADERS.replace("Gate", "Prüfung") + body.format(stated)).encode(real)
        )
        assert found.text == "Größte Prüfung der Pumpe, alle Wochen wieder."
        assert found.title == "Prüfung"
        assert len(found.faults) == (real == "cp1252")
    wide = (HEADERS + body.format("utf-8")).encode("utf-16")
    assert read("a.eml", wide).text.startswith("Größte")
