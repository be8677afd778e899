"""What depends on the language of a text: borders of sentences, and stop words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ..core import Span

_SHORTENED = """
    a.d adj adm al alias anm apr approx apt art assn assoc aug av ave b.c bd bldg bros bzw ca
    cap capt cf ch chap cie cit cl co col comp corp d.h dec dept dipl dr e.g ed eds ee.uu eg eng
    env equiv esp est etc eq eqs evtl ex exc excl f.c.c feb fig figs fr ft g gal gen gov
    hist hon hr hrsg ibid id i.e ie inc incl ing insb int jan jg jr jul jun kap lat lbs lic lieut
    lt ltd m.a maj mag mar max me mgr min mio mlle mme mm mr mrs ms mt mw n.b nb no nos nov nr nrs
    num oct op orig p p.ex p.m a.m par pag pgs ph.d phil pl pp pr prof pt pts pub q.v ref refs reg
    rep resp rev s.a sc sec sect sen sep sept ser sgt sig sogen sp spp sr sra sres srta st ste stk
    str suppl surg tab techn tel tit tr u.a u.s u.s.a usw univ v viz vol vols vs z.b zt ud uds vd
    vds avv dott ecc sig.ra sigg blz bijv enz mevr dhr jhr
"""
_ABBREVIATIONS = frozenset(_SHORTENED.split())
"""Abbreviations whose full stop does not end a sentence, casefolded, without that stop."""

_CLOSING = "al jr sr inc ltd co corp a.m p.m u.s u.s.a b.c a.d"
_MAY_END = frozenset(_CLOSING.split())
"""Abbreviations that may also end a sentence; the next word decides."""

_STARTING = """
a an after although and as at but by during for he her his however i if in it its many most no
on one our she since so some that the their there these they this those to we when while with you
alors apres c'est cela ces cette dans elle elles en il ils la le les leur leurs mais nous on par
pour sa ses son un une vous das der die ein eine er es ich in sie wir el ella ellas ellos en la las
los un una yo il io lo gli una ele ela eles elas o os as uma de het een hij zij wij
"""
_STARTERS = frozenset(_STARTING.split())
"""Words that, with a capital, start a sentence rather than a name."""

_CLOSERS = "\"'”’»)\\]\uff09」』】》"
_STOP = re.compile(
    rf"[.!?…]+(?:[{_CLOSERS}]|[ \u00a0\u202f](?=»)|[*_]+(?=[\s\[]|$))*(?:\[\d{{1,3}}\])*(?=\s|$)"
    rf"|[。！？｡؟।！？]+[{_CLOSERS}]*"
)
_LAST_WORD = re.compile(r"[^\s(\[«\"“]*$")
_LONGEST_WORD = 64
"""Characters before a stop mark that are looked at for an abbreviation."""

_OPENERS = "\"'“‘«([{¿¡-–—*_ \u00a0\u202f"

_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}\s|\s*={2,}[^=].*={2,}\s*$")
_RULE = re.compile(r"\s*(?:[-=_*~+]\s*){3,}$")
_SETEXT = re.compile(r"={3,}|-{3,}")
_TABLE = re.compile(r"\s*\|.*|.*\S\s*\|\s*\S.*\|.*|.*\t.*\t.*|\s*\+(?:[-=]+\+)+\s*$")
_BULLET = re.compile(
    r"\s*(?:>\s*)*(?:[-*•◦▪‣–—+]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)])\s+(?=\S)"
)
_LABEL = re.compile(r"\s*(?:\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})[.)])+\s*$")


def sentence_spans(text: str, language: str = "") -> list[Span]:
    """Spans of sentences in order; they hold every character that is not white space.

    A heading, a table row, a line of code and a bullet start their own span. A line break in
    running prose ends nothing unless the line is short and the next starts like a sentence.

    Args:
        text: Any text; Markdown is recognised.
        language: ISO code; unused so far, since all languages share the rules.
    """
    spans: list[Span] = []
    for start, end, prose in _line_blocks(text):
        if prose:
            spans += _prose_sentences(text, start, end)
        else:
            spans += _trimmed_span(text, start, end)
    return spans


def _trimmed_span(text: str, start: int, end: int) -> list[Span]:
    """The span without white space at its ends, as a list of zero or one."""
    piece = text[start:end]
    indent = len(piece) - len(piece.lstrip())
    length = len(piece.strip())
    return [Span(start + indent, start + indent + length)] if length else []


def _line_blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, prose) of every block of lines; other blocks are single lines."""
    begin: int | None = None
    position = 0
    fenced = False
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        start, position = position, position + len(line)
        fence = ("`" in line or "~" in line) and _FENCE.match(line) is not None
        fenced ^= fence
        after = lines[number + 1] if number + 1 < len(lines) else ""
        stands_alone = fence or fenced or _is_own_block(line, after)
        blank = not line.strip()
        if begin is not None and (
            stands_alone or blank or _BULLET.match(line) or _breaks_title(lines[number - 1], line)
        ):
            yield begin, start, True
            begin = None
        if stands_alone and not blank:
            yield start, position, False
        elif not blank and begin is None:
            begin = start
    if begin is not None:
        yield begin, position, True


def _is_own_block(line: str, after: str) -> bool:
    """True for a heading, a rule or a table row."""
    if ("|" in line or "\t" in line or "+" in line) and _TABLE.match(line):
        return True
    if ("#" in line or "=" in line) and _HEADING.match(line):
        return True
    return bool(_RULE.match(line) or (len(line) < 120 and _SETEXT.fullmatch(after.strip())))


def _breaks_title(before: str, line: str) -> bool:
    """True if a line break looks like the end of a title or a label, not of a full line."""
    head, tail = before.strip(), line.lstrip()
    if not head or not tail or head[-1] in ".!?…,;-—–(" or len(head) > 60:
        return False
    if len(head) >= 0.6 * len(tail.rstrip()) or not (tail[0].isupper() or tail[0].isdigit()):
        return False
    return len(head) < 40 or head[-1] == ":" or not head[-1].islower()


def _prose_sentences(text: str, start: int, end: int) -> list[Span]:
    """Sentences of a block of prose."""
    spans: list[Span] = []
    begin = start
    for stop in _STOP.finditer(text, start, end):
        if stop.end() < end and _goes_on(text, begin, stop, end):
            continue
        spans += _trimmed_span(text, begin, stop.end())
        begin = stop.end()
    return spans + _trimmed_span(text, begin, end)


def _goes_on(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """True where a stop mark does not end the sentence."""
    mark = stop[0]
    if mark[0] in "。！？｡؟।":
        return False
    after = text[stop.end() : min(end, stop.end() + 24)].lstrip(_OPENERS + "\n\t")
    first = after[:1]
    if first == "»" or first.islower():
        return True
    if mark[0] != "." or mark.startswith(".."):
        return False
    # A search over a word takes the square of its length, and no abbreviation is longer.
    last = _LAST_WORD.search(text, max(begin, stop.start() - _LONGEST_WORD), stop.start())
    word = last[0] if last else ""
    folded = word.casefold().lstrip("*_'’-–—")
    if _LABEL.match(text[begin : stop.end()]):
        return True
    if len(mark) > 1:
        return False
    if folded in {"etc", "usw", "ecc", "enz"}:
        return not first.isupper()
    if folded in _MAY_END or re.fullmatch(r"[A-Z](?:\.-?[A-Z])+", word):
        following = re.match(r"[\w'’]*", after)
        return not (first.isupper() and following and following[0].casefold() in _STARTERS)
    return folded in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word.isupper())


_EN = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing down during each few for from further had
has have having he her here hers herself him himself his how i if in into is it its itself just
me more most my myself no nor not of off on once only or other our ours ourselves out over own
same she should so some such than that the their theirs them themselves then there these they
this those through to too under until up very was we were what when where which while who whom
whose why will with would you your yours yourself yourselves dont doesnt didnt isnt arent wasnt
werent wont cant couldnt shouldnt wouldnt im ive id youre theyre weve thats theres eg ie etc
"""

_FR = """
a afin ai aie ainsi alors apres as au aucun aucune aupres aussi autre autres aux avaient avait
avant avec avez avoir avons c ca car ce ceci cela celle celles celui ces cet cette ceux chaque
chez ci comme comment d dans de depuis des dont donc du elle elles en encore entre es est et
etaient etait etant ete etes etre eu eux fait fut furent il ils j je jusqu l la laquelle le
lequel les lesquelles lesquels leur leurs lors lorsque lui m ma mais me meme memes mes moi mon n
ne ni nos notre nous on ont ou par parce pas pendant peu peut plus pour pourquoi pres puis qu
quand que quel quelle quelles quels qui quoi s sa sans se selon sera seront ses si sien soi soit
sommes son sont sous sur t ta tandis te tel telle telles tels tes toi ton tous tout toute toutes
tres tu un une va vers voici voila vos votre vous y combien cependant
"""

_DE = """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes
auch auf aus bei beim bin bis bist da damit dann das dass dein deine dem den denn der des dessen
dich die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen
einer eines er es etwas euch euer eure fur gegen habe haben hat hatte hatten hier hin hinter ich
ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im in ins ist ja jede jedem jeden jeder jedes jene
jener jetzt kann kein keine keinem keinen keiner konnen konnte mal man mein meine mich mir mit
muss musste nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner
seit sich sie sind so solche soll sollte sondern sonst uber um und uns unser unsere unter vom
von vor wahrend war waren warum was weg weil weiter welche welchem welchen welcher welches wem
wen wenn wer werde werden wie wieder wieviel will wir wird wirst wo wollen worden wurde wurden
zu zum zur zwar zwischen
"""

_ES = """
a al algo algun alguna algunas alguno algunos ante antes asi aun aunque bajo bien cada casi como
con contra cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde dos durante e el
ella ellas ello ellos en entre era eran eres es esa esas ese eso esos esta estaba estado estan
estar estas este esto estos estoy fin fue fueron ha habia han hasta hay he la las le les lo los
mas me mi mis mismo mucho muy nada ni no nos nosotros nuestra nuestro o os otra otras otro otros
para pero poco por porque pues que quien quienes se sea segun ser si sido sin sobre sois somos
son soy su sus tal tambien tan tanto te tengo ti tiene tienen todo todos tras tu tus un una uno
unos usted ya yo
"""

_IT = """
a abbia ad agli ai al alla alle allo altra altre altri altro anche ancora avere aveva c che chi
ci cio coi col come con contro cosa cui d da dagli dai dal dalla dalle dallo degli dei del della
delle dello di dopo dove due e ed era erano essere fra fu furono gia gli ha hai hanno ho i il in
io l la le lei li lo loro lui ma me mentre mi mia mio ne negli nei nel nella nelle nello noi non
nostra nostro o ogni oltre perche piu po poi quale quali quando quanta quanti quanto quel quella
quelle quelli quello questa queste questi questo qui sarebbe se sei senza si sia siamo sono sta
stata stati stato su sua sue sugli sui sul sulla sulle sullo suo suoi tra tu tutta tutti tutto un
una uno v vi voi
"""

_PT = """
a ainda alem algum alguma algumas alguns ao aos apenas apos aquela aquele aqueles aquilo as ate
cada com como da das de dela dele deles depois desde do dos e ela elas ele eles em enquanto entre
era eram essa essas esse esses esta estao estas estava este estes eu foi for foram ha isso isto
ja la lhe lhes mais mas me mesmo meu minha muito na nao nas nem no nos nossa nosso num numa o onde
os ou outra outras outro outros para pela pelas pelo pelos por porque pois qual quais quando
quanto quantos que quem sao se seja sem sendo ser seu seus so sob sobre sua suas tal tambem te tem
tinha todo todos tu tua um uma umas uns vai voce
"""

_NL = """
aan al alle alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus
een eens en er ge geen geweest haar had heb hebben heeft hem het hier hij hoe hoeveel hun ik in
is ja je kan kon kunnen maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat
onder ons ook op over reeds te tegen toch toen tot u uit uw van veel voor waar waarom wanneer want
waren was wat we welke werd werden wie wij wil worden wordt zal ze zelf zich zij zijn zo zonder zou
"""

_LISTS = {"en": _EN, "fr": _FR, "de": _DE, "es": _ES, "it": _IT, "pt": _PT, "nl": _NL}

LANGUAGES = tuple(sorted(_LISTS))
"""Languages with a stop list and a stemmer, by ISO 639-1 code."""

_ALSO_CONTENT = """
a ander car chez dessen die dir dos ever ex fin for fur gegen gia has hat het hier hin ja kan kon
lei les lo man me men met mi mia mal na no nu of og on one or os over pas peu pois por pour
pres se sei ser si sien sin sino so soi sol son soy sua sue sui sul ta tal tan te tel ton tot tous
tras tu tua un va van want war weg wen wil will wo y zo al ami an as be but come den des do el era
es est et fait fue fut he her im in ins it la le li ma mas mes mis mon moi most need ne nos not
num nun pero per per que sera sud sur tale tes ti une van vers vi vos would
"""


@cache
def stop_words(language: str) -> frozenset[str]:
    """Stop words of a language, accents folded; empty for ``none``.

    ``auto`` gives the English list and, of the other languages, the words that mean nothing
    else in English or in each other (French *avec*, German *nicht*), so that no language loses a
    content word that is a function word elsewhere. Raises KeyError for an unknown language.
    """
    if language == "none":
        return frozenset()
    if language != "auto":
        return frozenset(_LISTS[language].split())
    keep = {"de", "la", "le", "les", "des", "et", "est", "en", "une", "un", "du"}
    foreign = {w for name, text in _LISTS.items() if name != "en" for w in text.split()}
    safe = {w for w in foreign if len(w) > 1} - set(_ALSO_CONTENT.split())
    return frozenset(_EN.split()) | safe | keep
