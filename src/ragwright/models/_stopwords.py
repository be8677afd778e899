"""Stop words: function words without content, one list per language.

Written without accents, since the analyzer folds a word before the look-up; an analyzer that
does not fold adds the accented forms with :func:`stop_words`. Question words are included: they
show what kind of answer is wanted, not where it is.
"""

from __future__ import annotations

from functools import cache

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
