"""Grammar of the template questions: sentences of four languages, and their questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from ._subjects import (
    ARTICLE,
    INDEFINITE,
    is_person,
    lowered,
    lowered_first,
    perhaps_person,
    stands_alone,
)
from ._survey import Survey
from ._verbs import VERBS

_DATE = r"(?P<date>(?:\d{1,2} )?(?:[^\W\d_]+ )?(?:\d{1,2}, )?(?:1\d|20)\d\d)"
_SUBJECT = r"(?P<s>[^\W_][^,;:()\[\]!?«»\"“”=|]{1,70}?)"
_REST = r"(?P<rest>(?: [^,;:()\[\]]+?)?)"
_NUMBER = r"(?P<n>\d[\d., \u00a0\u202f]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|twelve)"

_MOST_WORDS = 24


@dataclass(frozen=True, slots=True)
class Template:
    """One form of a sentence, and the question that it answers.

    Attributes:
        form: ``definition``, ``procedure``, ``value``, ``list``, ….
        pattern: Pattern of the whole plain sentence; ``s`` is its subject.
        ask: Makes the question from the match and its subject.
    """

    form: str
    pattern: re.Pattern[str]
    ask: Callable[[re.Match[str], str], str]
    answer: str = ""


_PLURAL = frozenset(["are", "were", "sont", "étaient", "sind", "waren", "son", "eran"])
_SINGULAR = re.compile(r"(?:an?|une?|le|la|ein|eine|der|das|el|una)\s|l['’]", re.IGNORECASE)


def _subject_disagrees(match: re.Match[str], subject: str) -> bool:
    """True for a singular subject with a plural verb: the sentence is inverted."""
    return match["v"] in _PLURAL and bool(_SINGULAR.match(subject))


_BASE: Mapping[str, str] = {
    verb: base
    for base, verbs in {
        "contain": "contains",
        "include": "includes",
        "require": "requires",
        "support": "supports",
        "provide": "provides",
        "return": "returns",
        "measure": "measures",
        "store": "stores",
        "mean": "means",
        "describe": "describes",
        "cause": "causes",
        "affect": "affects",
        "specify": "specifies",
        "indicate": "indicates",
    }.items()
    for verb in verbs.split()
}
_AGENTS: Mapping[str, str] = {
    "written": "wrote",
    "built": "built",
    "made": "made",
    "won": "won",
    "led": "led",
    "drawn": "drew",
    "taken": "took",
    "sung": "sang",
    "held": "held",
}
_DEEDS = frozenset(
    re.findall(
        r"\S+",
        """
        built composed created designed developed directed discovered drawn edited founded held
        introduced invented led made painted produced proposed published recorded sung taken
        translated won written
        """,
    )
)
"""Verbs for deeds of persons; "supported by a grant" is not one."""


def _who_did(match: re.Match[str], subject: str) -> str:
    verb = match["p"]
    if verb not in _DEEDS:
        return ""
    past = _AGENTS.get(verb, verb)
    return f"Who {past} {lowered(subject)}?" if past else ""


def _english_what(match: re.Match[str], subject: str) -> str:
    verb = match["v"]
    person = is_person(match, subject)
    past = verb in {"was", "were"}
    if _subject_disagrees(match, subject) or (not person and past and perhaps_person(subject)):
        return ""
    return f"{'Who' if person else 'What'} {verb} {lowered(subject)}?"


def _french_what(match: re.Match[str], subject: str) -> str:
    if _subject_disagrees(match, subject):
        return ""
    if is_person(match, subject):
        return f"Qui {match['v']} {lowered(subject)} ?"
    if len(re.findall(r"\b[A-ZÀ-Þ]\w+", subject)) >= 2 and not ARTICLE.match(subject):
        return ""  # perhaps a person
    low = lowered(subject)
    if match["v"] in _PLURAL:
        return f"Que sont {low} ?"
    return f"Qu'est-ce {_french_que(low)}{low} ?"


def _french_que(following: str) -> str:
    return "qu'" if following[:1].lower() in "aeiouyàâéèêëîïôœ" else "que "


def _french_pronoun(verb: str, part: str) -> str:
    """Return the pronoun that agrees with a participle."""
    plural = verb.split()[0] in {"ont", "sont", "furent"}
    feminine = part.rstrip("s").endswith("e")
    return ("elle" if feminine else "il") + ("s" if plural else "")


def _french_passive(match: re.Match[str], subject: str, word: str) -> str:
    verb, part = match["v"], match["p"]
    head, _, tail = verb.partition(" ")
    hyphen = "-t-" if head[-1] == "a" else "-"
    inverted = f"{head}{hyphen}{_french_pronoun(verb, part)}{' ' + tail if tail else ''}"
    return f"{word} {lowered(subject)} {inverted} {part}{match['rest']} ?"


def _german_what(match: re.Match[str], subject: str) -> str:
    person = is_person(match, subject)
    if _subject_disagrees(match, subject) or (
        not person and match["v"] == "war" and perhaps_person(subject)
    ):
        return ""
    return f"{'Wer' if person else 'Was'} {match['v']} {lowered(subject)}?"


def _spanish_count(match: re.Match[str], subject: str) -> str:
    things = match["what"]
    word = "Cuántas" if things.endswith("as") else "Cuántos"
    verb = match["v"].replace("cuenta con", "tiene")
    return f"¿{word} {things} {verb} {lowered(subject)}?"


def _spanish_what(match: re.Match[str], subject: str) -> str:
    if _subject_disagrees(match, subject) or (
        match["v"] == "fue" and not is_person(match, subject)
    ):
        return ""
    word = "Quién" if is_person(match, subject) else "Qué"
    return f"¿{word} {match['v']} {lowered(subject)}?"


def _template(
    form: str, pattern: str, ask: Callable[[re.Match[str], str], str], answer: str = ""
) -> Template:
    return Template(form, re.compile(pattern), ask, answer)


_PART_FR = r"(?P<p>[^\W\d_]+(?:é|ée|és|ées|i|ie|ies|it|ite|its|ites|is|ise|ises|u|ue|us|ues))"
_HAVE = {"has": "does", "have": "do", "had": "did"}

TEMPLATES: Mapping[str, Sequence[Template]] = {
    "en": (
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>was|were) (?P<p>[a-z]+ed|born|built|made|written|won|held|sold)"
            rf"{_REST} (?:in|on) {_DATE}\b.*",
            lambda m, s: f"When {m['v']} {lowered(s)} {m['p']}{m['rest']}?",
            "date",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>was|were) (?P<p>\w+) by (?P<who>(?:the )?[A-Z][^,;()]{{2,60}}?)"
            r"(?: (?:in|on|at|for|to|as|after|during)\b.*)?\.",
            _who_did,
            "who",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>is|are|was|were) (?P<p>located|situated|based|headquartered) "
            rf"(?!on |upon ).*",
            lambda m, s: f"Where {m['v']} {lowered(s)} {m['p']}?",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>has|have|had) (?:about |around |over |only |exactly )?{_NUMBER} "
            r"(?P<what>(?!more|other|new|years)[a-z]+(?: [a-z]+)?s)\b(?! of)(?:[ ,.;].*)?",
            lambda m, s: f"How many {m['what']} {_HAVE[m['v']]} {lowered(s)} have?",
            "n",
        ),
        _template(
            "definition",
            rf"{_SUBJECT} (?P<v>is|are|was|were) (?P<d>(?:an?|the|one of)\s.+)",
            _english_what,
        ),
        _template(
            "definition",
            rf"{_SUBJECT} (?:means(?! (?:for|of|to)\b)|refers to|stands for) .+",
            lambda m, s: f"What does {lowered(s)} mean?",
        ),
        _template(
            "procedure",
            r"To (?P<s>[a-z]+ [^,;:]{3,70}), (?P<next>[a-z-]+)\b.+",
            lambda m, s: (
                f"How do I {in_first_person(s)}?" if m["next"] in {*VERBS, "you", "first"} else ""
            ),
        ),
        _template(
            "list",
            r"The following (?P<s>[a-z][\w -]{2,50}?) (?P<v>are|can|must|may|will|have) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"Which {s} {m['v']} {m['rest']}?",
        ),
        _template(
            "statement",
            rf"{_SUBJECT} (?P<v>{'|'.join(_BASE)}) (?!that\b|to\b).+",
            lambda m, s: f"What does {lowered(s)} {_BASE[m['v']]}?",
        ),
    ),
    "fr": (
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>est|sont|a été|ont été|fut|furent) {_PART_FR}{_REST} en "
            rf"(?P<date>(?:[a-zéû]+ )?(?:1\d|20)\d\d)\b.*",
            lambda m, s: _french_passive(m, s, "Quand"),
            "date",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>est|sont|a été|ont été|fut|furent) {_PART_FR}{_REST} par "
            r"(?P<who>[A-ZÀ-Þ][^,;()]{3,60}?)(?: (?:en|dans|pour|à|lors)\b.*)?\.",
            lambda m, s: _french_passive(m, s, "Par qui"),
            "who",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>se trouve|se situe|est située?|sont située?s) .+",
            lambda m, s: (
                f"Où se {'trouvent' if m['v'].startswith('sont') else 'trouve'} {lowered(s)} ?"
            ),
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>compte|comptait|comporte|possède) (?:environ |près de |plus de "
            rf")?(?P<n>\d[\d  .,]*|deux|trois|quatre|cinq|six|sept|huit|dix) "
            rf"(?P<what>[^\W\d_]+s)\b.*",
            lambda m, s: f"Combien {_french_de(m['what'])} {m['v']} {lowered(s)} ?",
            "n",
        ),
        _template(
            "definition",
            rf"{_SUBJECT} (?P<v>est|sont|était|étaient|fut) (?P<d>(?:une?\s|l['’]une?\s|les?\s|"
            rf"la\s|l['’]).+)",
            _french_what,
        ),
        _template(
            "procedure",
            r"Pour (?P<s>[^\W\d_]+(?:er|ir|re) [^,;:]{3,70}), (?:vous|il faut|\w+ez)\b.+",
            lambda m, s: f"Comment {s} ?",
        ),
        _template(
            "list",
            r"Les (?P<s>[\w' -]{3,50}?) suivant(?P<f>e?)s (?P<v>sont|peuvent|doivent|ont) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"{'Quelles' if m['f'] else 'Quels'} {s} {m['v']} {m['rest'].strip()} ?",
        ),
    ),
    "de": (
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>wurde|wurden) (?:im Jahre? |am |im )?"
            rf"(?P<date>(?:\d{{1,2}}\. )?(?:[A-ZÄ][a-zäöü]+ )?(?:1\d|20)\d\d) "
            rf"(?P<rest>[^,;:.]{{3,60}})\.",
            lambda m, s: f"Wann {m['v']} {lowered(s)} {m['rest']}?",
            "date",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>liegt|liegen|befindet sich|befinden sich) (?:in|im|an|am|auf|"
            rf"zwischen|nördlich|südlich|östlich|westlich|nahe) .+",
            lambda m, s: (
                f"Wo {m['v'].split()[0]} {'sich ' if 'sich' in m['v'] else ''}{lowered(s)}?"
            ),
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>hat|haben|hatte|hatten) (?:etwa |rund |über "
            rf")?(?P<n>(?!1[0-9]{3}\b|20\d\d\b)\d[\d.]*|zwei|drei|vier|fünf|sechs|sieben|acht|"
            rf"zehn) (?P<what>[A-ZÄÖÜ][a-zäöüß]+(?:en|er|e|s))\b.*",
            lambda m, s: f"Wie viele {m['what']} {m['v']} {lowered(s)}?",
            "n",
        ),
        _template(
            "definition",
            rf"{_SUBJECT} (?P<v>ist|sind|war|waren) (?P<d>(?:eine?|eine[rs]|der|die|das)\s.+)",
            _german_what,
        ),
        _template(
            "procedure",
            r"Um (?P<s>[^,;:]{3,60}) zu (?P<v>[a-zäöü]+en), (?:müssen|können|klicken|muss man|"
            r"kann man|\w+en Sie)\b.+",
            lambda m, s: f"Wie kann ich {s} {m['v']}?",
        ),
        _template(
            "list",
            r"Die folgenden (?P<s>[\w -]{3,50}?) (?P<v>sind|können|müssen|haben|werden) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"Welche {s} {m['v']} {m['rest']}?",
        ),
    ),
    "es": (
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>fue|fueron) (?P<p>[^\W\d_]+[aio]d[oa]s?){_REST} en "
            rf"(?P<date>(?:[a-z]+ de )?(?:1\d|20)\d\d)\b.*",
            lambda m, s: f"¿Cuándo {m['v']} {m['p']}{m['rest']} {lowered(s)}?",
            "date",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>fue|fueron) (?P<p>[^\W\d_]+[aio]d[oa]s?){_REST} por "
            rf"(?P<who>[^,;()]{{3,60}}?)(?: en\b.*)?\.",
            lambda m, s: f"¿Por quién {m['v']} {m['p']}{m['rest']} {lowered(s)}?",
            "who",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>se encuentra|está situad[oa]|está ubicad[oa]|se encuentran) .+",
            lambda m, s: f"¿Dónde {m['v']} {lowered(s)}?",
        ),
        _template(
            "value",
            rf"{_SUBJECT} (?P<v>tiene|tenía|cuenta con) (?:unos |unas |más de )?(?P<n>\d[\d.]*|"
            rf"dos|tres|cuatro|cinco|seis) (?P<what>[^\W\d_]+[oa]s)\b.*",
            _spanish_count,
            "n",
        ),
        _template(
            "definition",
            rf"{_SUBJECT} (?P<v>es|son|era|eran|fue) (?P<d>(?:una?|unos|unas|el|la|los|las)\s.+)",
            _spanish_what,
        ),
        _template(
            "procedure",
            r"Para (?P<s>[^\W\d_]+(?:ar|er|ir) [^,;:]{3,70}), (?:debe|hay que|puede|haga|use|"
            r"utilice|pulse|seleccione|abra)\b.+",
            lambda m, s: f"¿Cómo {s}?",
        ),
        _template(
            "list",
            r"L(?P<f>[oa])s siguientes (?P<s>[\w -]{3,50}?) (?P<v>son|están|pueden|deben) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"¿Qué {s} {m['v']} {m['rest']}?",
        ),
    ),
}
"""Templates by language, in order of preference."""


def in_first_person(words: str) -> str:
    """Put words into the first person: my project, not your project."""
    return re.sub(r"\byour\b", "my", re.sub(r"\byou\b", "I", words))


def _french_de(noun: str) -> str:
    return f"d'{noun}" if noun[:1].lower() in "aeiouyhéèê" else f"de {noun}"


_OPINION = re.compile(
    r"(?:\w+\s)(?:\w+\s)?(?:good|bad|useful|important|common|popular|key|matter|only|\w{3,}est|best"
    r"|special case|reason|result"
    r"|bon|bonne|importante?s?|résultat|gute?\w*|wichtig\w*|importantes?|buen\w*)\b"
)
"""Beginnings of predicates that define nothing."""

_UNFINISHED = re.compile(r" (?:[a-z]+ly|[a-z]+ed|[a-z]+ing)$")
"""The subject is cut off after a modifier: "four judged" of "four judged measures"."""

GENERIC = re.compile(
    r"\b(?:issues?|problems?|errors?|results?|this|these|it|them|possible)\b", re.IGNORECASE
)


def _answers_alone(
    template: Template, match: re.Match[str], subject: str, survey: Survey, language: str
) -> bool:
    """True if the question can be understood alone, and the sentence answers it."""
    if template.form in ("procedure", "list"):
        phrase = subject if template.form == "procedure" else match[0].partition(":")[0]
        content = set(survey.vocabulary.source.tokens(GENERIC.sub("", phrase)))
        return len(subject.split()) <= 12 and len(content) >= 2
    parts = match.groupdict()
    return (
        stands_alone(subject, survey, language)
        and not (template.form == "value" and INDEFINITE.match(subject))
        and not _OPINION.match(parts.get("d") or "")
        and not re.search(r" (?:und|and|et) ", parts.get("rest") or "")
    )


def question_of_template(
    template: Template, plain: str, survey: Survey, language: str, common: Set[str]
) -> tuple[str, str] | None:
    """Return the question and the answer (empty: the sentence) that a template makes of a sentence.

    Args:
        template: The form.
        plain: The sentence, without marks.
        survey: Of the collection.
        language: Of the sentence: en, fr, de, es.
        common: Words that the document writes in lower case.
    """
    if len(plain.split()) > 45 or not plain[:1].isupper():
        return None
    match = template.pattern.fullmatch(plain)
    if match is None:
        return None
    subject = match["s"].strip()
    if not _answers_alone(template, match, subject, survey, language):
        return None
    first, *others = subject.split()
    if template.form == "statement" and _UNFINISHED.search(subject):
        return None
    if (
        template.form == "statement"
        and first.lower() in common
        and any(word.islower() and word.endswith("s") for word in others)
    ):
        return None  # perhaps a plural
    if first.lower() in common and language != "de":
        subject = lowered_first(subject)
    question = template.ask(match, subject)
    if not question or "\\" in question or len(question.split()) > _MOST_WORDS:
        return None
    answer = match[template.answer].strip() if template.answer else ""
    if answer and answer.casefold() in question.casefold():
        return None
    return question[0].upper() + question[1:], answer
