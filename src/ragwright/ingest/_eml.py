"""Mail files: headers as metadata, the plain part as text, attachments as further files."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage, MIMEPart

from ..core import EmptySourceError, Section
from ._extract import Attachment, Extract
from ._html import parse_html
from ._language import guess_language
from ._normalise import clean_metadata, iso_date, normalise
from ._options import SourceOptions


def read_eml(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a mail; the plain part is preferred to the HTML part.

    ``text`` may be empty where the mail only carries attachments.

    Raises:
        EmptySourceError: Neither text nor attachments.
    """
    message = email.message_from_bytes(data, policy=email.policy.default)
    text = ""
    sections: tuple[Section, ...] = ()
    body = message.get_body(("plain",))
    if body is not None:
        text = normalise(_text(body)).strip("\n")
    if not text.strip():
        page = message.get_body(("html",))
        if page is not None:
            extract = parse_html(_text(page), main_only=False, where=where)
            text, sections = extract.text, extract.sections
    attachments = tuple(_attachments(message))
    if not text.strip() and not attachments:
        raise EmptySourceError("the mail contains no text", where=where, hint="remove it")
    headers = {name: _header(message, name) for name in ("from", "to", "cc", "date", "message-id")}
    return Extract(
        text=text if text.strip() else "",
        title=_header(message, "subject"),
        language=guess_language(text),
        created=iso_date(headers.pop("date")),
        media_type="message/rfc822",
        sections=sections,
        metadata=clean_metadata(headers),
        attachments=attachments,
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(normalise(str(message.get(name) or "")).split())
    except (ValueError, IndexError, AttributeError):  # the library trips over broken headers
        return ""


def _text(part: MIMEPart) -> str:
    try:
        return str(part.get_content())
    except (LookupError, UnicodeError, KeyError, ValueError):
        payload = part.get_payload(decode=True)
        return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else ""


def _attachments(message: EmailMessage) -> list[Attachment]:
    attachments: list[Attachment] = []
    for number, part in enumerate(message.iter_attachments(), 1):
        if part.get_content_type() == "message/rfc822":
            inner = part.get_payload(0) if part.is_multipart() else None
            content = inner.as_bytes() if isinstance(inner, EmailMessage) else b""
            name = part.get_filename() or f"message-{number}.eml"
        else:
            payload = part.get_payload(decode=True)
            content = payload if isinstance(payload, bytes) else b""
            name = part.get_filename() or f"part-{number}.{part.get_content_subtype()}"
        if content and not (part.get_content_maintype() == "image" and not part.get_filename()):
            attachments.append(Attachment(name.replace("\\", "/").rpartition("/")[2], content))
    return attachments
