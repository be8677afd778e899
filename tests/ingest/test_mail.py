"""Mails and mailboxes, as mail programs write them."""

from __future__ import annotations

import base64
import quopri
from email.message import EmailMessage
from pathlib import Path

import pytest
from one_file import read, read_all

HEADERS = "From: a@example.org\nTo: b@example.org\nSubject: Gate\n"
STUBS = [
    "Open this mail in your browser: https://example.org/x",
    "Your e-mail program does not show HTML.",
    "-- \n",
    "",
]
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
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_mailbox_is_its_mails(tmp_path: Path, name: str, encode: str, end: bytes) -> None:
    box = b""
    for number in range(3):
        mark = ">" * (encode == "8bit")  # as mailboxes mark such a line
        text = f"Prüfung {number} ist fällig.\n\n{mark}From here on, a quote.\n"
        box += b"From x@y Mon Mar  2 10:00:00 2026\n" + bytes(mail(text, f"T{number}", encode))
        box += b"\n"
    documents, failures = read_all(tmp_path, name, box.replace(b"\r\n", b"\n").replace(b"\n", end))
    assert not failures
    assert [document.title for document in documents] == ["T0", "T1", "T2"]
    assert [document.id for document in documents] == [f"{name}#{n}.eml" for n in (1, 2, 3)]
    assert documents[1].text == "Prüfung 1 ist fällig.\n\nFrom here on, a quote."


def test_attachments_of_mails_in_a_mailbox_are_read(tmp_path: Path) -> None:
    message = mail("See the list.")
    message.add_attachment(b"lot;count\n7;120\n", "text", "csv", filename="lots.csv")
    box = b"From x@y Mon Mar  2 10:00:00 2026\n" + bytes(message)
    documents, _ = read_all(tmp_path, "a.mbox", box)
    assert [document.id for document in documents] == ["a.mbox#1.eml", "a.mbox#1.eml#lots.csv"]


def test_a_mailbox_without_mails_is_refused(tmp_path: Path) -> None:
    documents, (failure,) = read_all(tmp_path, "a.mbox", "Some words.\n")
    assert not documents
    assert "no mail begins" in str(failure.error)


@pytest.mark.parametrize("coding", ["base64", "quoted-printable", "8bit"])
def test_a_mail_within_a_mail(tmp_path: Path, coding: str) -> None:
    inner = bytes(mail("Recall all valves: Größe 9."))
    code = {"base64": base64.encodebytes, "quoted-printable": quopri.encodestring}.get(
        coding, bytes
    )
    outer = (
        f"{HEADERS}MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n"
        "Content-Type: text/plain\n\nSee below.\n--B\nContent-Type: message/rfc822\n"
        f"Content-Transfer-Encoding: {coding}\n\n"
    ).encode() + code(inner)
    documents, failures = read_all(tmp_path, "a.eml", outer + b"\n--B--\n")
    assert not failures
    assert [d.text for d in documents] == ["See below.", "Recall all valves: Größe 9."]


@pytest.mark.parametrize("stub", STUBS)
def test_the_part_that_says_most_is_read(tmp_path: Path, stub: str) -> None:
    message = mail(stub)
    message.add_alternative(SHOWN, "html")
    text = read(tmp_path, "a.eml", bytes(message))[0].text
    assert "The gate opens at six on 9 June." in text
    assert "| 7 |" in text


def test_two_equal_parts_are_read_once_and_different_ones_both(tmp_path: Path) -> None:
    message = mail("The gate opens at six on 9 June.\nKey 7")
    message.add_alternative(SHOWN, "html")
    assert read(tmp_path, "a.eml", bytes(message))[0].text.count("gate opens") == 1
    words = " ".join(f"word{n} thing{n}" for n in range(20))
    message = mail(words)
    message.add_alternative(f"{SHOWN}<p>{words.replace('word', 'other').upper()}</p>", "html")
    text = read(tmp_path, "a.eml", bytes(message))[0].text
    assert words in text.replace("\n", " ")
    assert "gate opens" in text


def test_encodings_of_mails(tmp_path: Path) -> None:
    body = "Content-Type: text/plain; charset={}\n\nGrößte Prüfung der Pumpe, alle Wochen wieder.\n"
    for stated, real in (("utf-8", "cp1252"), ("no-such", "cp1252"), ("us-ascii", "utf-8")):
        data = (HEADERS.replace("Gate", "Prüfung") + body.format(stated)).encode(real)
        document, warnings = read(tmp_path, "a.eml", data)
        assert document.text == "Größte Prüfung der Pumpe, alle Wochen wieder."
        assert document.title == "Prüfung"
        assert len(warnings) == (real == "cp1252")
    wide = (HEADERS + body.format("utf-8")).encode("utf-16")
    assert read(tmp_path, "a.eml", wide)[0].text.startswith("Größte")


def test_a_mail_without_a_suffix_and_a_signature(tmp_path: Path) -> None:
    message = mail("The pressure is 9 bar.")
    message.add_attachment(b"\0\1", "application", "pkcs7-signature", filename="smime.p7s")
    (document,), failures = read_all(tmp_path, "1700000000.host:2,S", bytes(message))
    assert document.text == "The pressure is 9 bar."
    assert not failures
