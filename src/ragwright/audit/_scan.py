"""One pass over the documents: every detector reads each of them once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..core import Document
from ..retrieve import mine_glossary
from ._codes import Codes
from ._copies import Copies
from ._damage import Damage
from ._options import AuditOptions
from ._pairs import Pairs
from ._records import Finding
from ._references import References
from ._text import Corpus, lines_of


@dataclass(slots=True)
class Scan:
    """What one pass over the documents yields.

    Attributes:
        corpus: What is remembered of each document.
        findings: Findings, in no particular order.
        pages: Pages of formats that have some.
        characters: Length of all texts.
    """

    corpus: Corpus
    findings: list[Finding] = field(default_factory=list)
    pages: int = 0
    characters: int = 0


def scan_documents(
    documents: Callable[[], Iterable[Document]],
    read: Callable[[str], Document | None],
    options: AuditOptions,
    kinds: Sequence[str],
    exists: Callable[[str], bool],
) -> Scan:
    """Read every document once (twice for ``codes``), and gather the findings of these kinds.

    Args:
        documents: Iterates over the documents from the beginning at each call.
        read: A document by its id, for the places of findings.
        options: Thresholds.
        kinds: Kinds to look for; those that need more than reading are ignored.
        exists: True for the path of a file that is there, relative to the project.
    """
    scan = Scan(Corpus(read))
    pairs = Pairs(scan.corpus, options.pairs) if "contradictions" in kinds else None
    copies = Copies(scan.corpus, options.copy_similarity) if "copies" in kinds else None
    codes = Codes(scan.corpus) if "codes" in kinds else None
    references = References(scan.corpus, exists) if "references" in kinds else None
    damage = Damage(scan.corpus, options) if "damage" in kinds else None
    for document in documents():
        brief = scan.corpus.add(document)
        scan.pages += len(document.pages)
        scan.characters += len(document.text)
        lines = list(lines_of(document.text))
        for detector in (pairs, codes, references, damage):
            if detector is not None:
                detector.read(document, brief, lines)
        if copies is not None:
            copies.read(document, brief)
    for collected in (pairs, copies, references, damage):
        if collected is not None:
            scan.findings += collected.findings()
    if codes is not None:
        scan.findings += codes.findings(
            mine_glossary(documents()), references.dead if references is not None else ()
        )
    return scan
