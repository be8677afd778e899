"""Mails and mailboxes: headers as metadata, the fullest part as text, attachments as files."""

from __future__ import annotations

import base64
import binascii
import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage, MIMEPart

from ..core import EmptySourceError, MalformedSourceError, RagwrightError, Section
from ._encoding import decode
from ._extract import Attachment, Extract
from ._html import read_html
from ._normalise import clean_metadata, guess_language, iso_date, normalise
from ._options import SourceOptions

_ENVELOPE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n(?=>?[!-9;-~]+:)")
_WORD = re.compile(r"\w{4,}|\d+")
_SIGNATURES = frozenset({"pkcs7-signature", "x-pkcs7-signature", "pgp-signature"})


def read_mbox(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a mailbox: each of its mails is an attachment.

    Raises:
        MalformedSourceError: No mail begins in it.
    """
    starts = [match.span() for match in _ENVELOPE.finditer(data)]
    if not starts:
        raise MalformedSourceError(
            "no mail begins in the mailbox: no line From with headers below it",
            where=where,
            hint="export the mails again, or rename a single one to .eml",
        )
    ends = [start for start, _ in starts[1:]] + [len(data)]
    mails = (data[begin:end] for (_, begin), end in zip(starts, ends, strict=True))
    return Extract(
        text="",
        media_type="application/mbox",
        attachments=tuple(
            Attachment(f"{number}.eml", re.sub(rb"(?m)^>(>*From )", rb"\1", mail))
            for number, mail in enumerate(mails, 1)
        ),
    )


def read_eml(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a mail: its plain part, or the HTML part where that says more.

    ``text`` may be empty where the mail only carries attachments.
    """
    if b"\0" in data[:100]:  # a mail saved as UTF-16
        data = decode(data, where, options.encoding).text.lstrip("\ufeff").encode()
    message = email.message_from_bytes(data, policy=email.policy.default)
    faults: dict[str, RagwrightError] = {}
    text, sections = _body(message, where, options, faults)
    attachments = tuple(_attachments(message))
    headers = {
        name: _header(message, name, where)
        for name in ("from", "to", "cc", "date", "message-id", "subject")
    }
    return Extract(
        text=text if text.strip() else "",
        title=headers.pop("subject"),
        language=guess_language(text),
        created=iso_date(headers.pop("date")),
        media_type="message/rfc822",
        sections=sections,
        metadata=clean_metadata(headers),
        faults=tuple(faults.values()) if text.strip() else (),
        attachments=attachments,
    )


def _body(
    message: EmailMessage, where: str, options: SourceOptions, faults: dict[str, RagwrightError]
) -> tuple[str, tuple[Section, ...]]:
    """Return the text of a mail: the HTML if that says much more, then what else the other says.

    Many mails have a plain part of one line: "View this mail in your browser".
    """
    plain = _part(message.get_body(("plain",)), where, options, faults)
    plain = normalise(plain).strip("\n")
    html = _part(message.get_body(("html",)), where, options, faults)
    if not html.strip():
        return plain, ()
    try:
        page = read_html(html.encode(errors="replace"), where, SourceOptions(encoding="utf-8"))
    except EmptySourceError:
        return plain, ()
    said, shown = set(_WORD.findall(plain)), set(_WORD.findall(page.text))
    if plain.strip() and len(shown - said) <= max(3, 0.5 * len(said)):
        return plain, ()
    faults.update((fault.what, fault) for fault in page.faults)
    more = len(said - shown) > max(12, 0.5 * len(said))
    return f"{page.text}\n\n{plain}" if more else page.text, page.sections


def _part(
    part: MIMEPart | None, where: str, options: SourceOptions, faults: dict[str, RagwrightError]
) -> str:
    payload = part.get_payload(decode=True) if part is not None else b""
    if part is None or not isinstance(payload, bytes) or not payload:
        return ""
    decoded = decode(payload, where, options.encoding, (str(part.get_param("charset", "")),))
    faults.update((fault.what, fault) for fault in decoded.faults)
    return decoded.text


def _header(message: EmailMessage, name: str, where: str) -> str:
    raw = next((str(v) for key, v in message.raw_items() if key.lower() == name), "")
    try:
        if re.search("[\udc80-\udcff]", raw):  # bytes as they are, without the encoding's name
            text = decode(raw.encode("ascii", "surrogateescape"), where).text
        else:
            text = str(message.get(name) or "")
        return " ".join(normalise(text).split())
    except (ValueError, IndexError, AttributeError, RagwrightError):  # headers that are broken
        return ""


def _attachments(message: EmailMessage) -> Iterator[Attachment]:
    for number, part in enumerate(message.iter_attachments(), 1):
        if part.get_content_type() == "message/rfc822":
            content = _forwarded(part)
            name = part.get_filename() or f"message-{number}.eml"
        else:
            payload = part.get_payload(decode=True)
            content = payload if isinstance(payload, bytes) else b""
            name = part.get_filename() or f"part-{number}.{part.get_content_subtype()}"
        picture = part.get_content_maintype() == "image" and not part.get_filename()
        if content and not picture and part.get_content_subtype() not in _SIGNATURES:
            yield Attachment(name.replace("\\", "/").rpartition("/")[2], content)


def _forwarded(part: MIMEPart) -> bytes:
    """Return a mail within a mail; some programs encode it, although the standard forbids it."""
    inner = part.get_payload(0) if part.is_multipart() else None
    content = inner.as_bytes() if isinstance(inner, EmailMessage) else b""
    coding = str(part.get("content-transfer-encoding", "")).strip().lower()
    try:
        if coding == "base64":
            return base64.b64decode(content)
        return binascii.a2b_qp(content) if coding == "quoted-printable" else content
    except binascii.Error:
        return content
